//! NCCL between processes that have an NVIDIA GPU each, opened at run time with CUDA's driver (`library`). The first
//! process is found as MLX finds it, by NCCL_HOST_IP and NCCL_PORT; processes meet there before each operation (`hub`,
//! `wire`), and bytes go through a GPU's memory (`device`, `group`). NCCL's calls are made by a thread of the group's
//! own (`worker`).

#[cfg(all(feature = "vulkan", target_os = "linux"))]
mod bridge;
#[cfg(unix)]
mod device;
#[cfg(unix)]
mod group;
#[cfg(unix)]
mod hub;
#[cfg(unix)]
mod library;
#[cfg(unix)]
mod shared;
#[cfg(unix)]
mod wire;
#[cfg(unix)]
mod worker;

use std::sync::Arc;

use super::Group;
use crate::bail;
use crate::core::env::{Values, Variable};
use crate::core::{Result, env};
#[cfg(unix)]
use crate::memory::cuda;

pub static WORLD_SIZE: Variable = Variable::new(
    "MLX_WORLD_SIZE",
    "none",
    Values::Text("number"),
    "How many processes a group over NCCL has; `mlx.launch --backend nccl` sets it",
);
pub static LIBNAME: Variable = Variable::new(
    "MLX_NCCL_LIBNAME",
    "`libnccl.so.2`, of the system or of NVIDIA's packages for Python",
    Values::Text("library"),
    "The NCCL library that is opened",
);

/// Whether NCCL and CUDA's driver can be opened and there is a GPU.
pub fn is_available() -> bool {
    #[cfg(unix)]
    return library::nccl().is_some();
    #[cfg(not(unix))]
    false
}

/// The process ends.
pub fn end() {
    #[cfg(unix)]
    group::end();
}

/// Whether threads are within NCCL, under which the process must not end.
pub fn is_busy() -> bool {
    #[cfg(unix)]
    return group::is_destroying();
    #[cfg(not(unix))]
    false
}

/// The group that the environment names.
pub fn init(strict: bool) -> Result<Option<Arc<dyn Group>>> {
    // The number of the process, how many there are, and the first one's address and port.
    let names = [super::ring::RANK.name, WORLD_SIZE.name, "NCCL_HOST_IP", "NCCL_PORT"];
    let values = names.map(|name| env::foreign_text(name).unwrap_or_default());
    if let Some(i) = values.iter().position(String::is_empty) {
        if strict {
            bail!(
                Runtime,
                "[nccl] Expected the environment variables {}, but {} is not set.",
                names.join(", "),
                names[i]
            );
        }
        return Ok(None);
    }
    #[cfg(unix)]
    if let (Some(nccl), Some(cuda)) = (library::nccl(), cuda::driver()) {
        return connect(nccl, cuda, &values).map(Some);
    }
    if strict {
        bail!(
            Runtime,
            "[nccl] Cannot initialize NCCL: libcuda.so.1, libnccl.so.2 of version 2.7 at least and an NVIDIA GPU are \
             needed."
        );
    }
    Ok(None)
}

#[cfg(unix)]
fn connect(
    nccl: &'static library::Nccl,
    cuda: &'static cuda::Cuda,
    values: &[String; 4],
) -> Result<Arc<dyn Group>> {
    use std::net::ToSocketAddrs;

    let [rank, size, host, port] = values;
    let (Ok(rank), Ok(size)) = (rank.parse::<usize>(), size.parse::<usize>()) else {
        bail!(Runtime, "[nccl] Expected numbers, got MLX_RANK={rank} and MLX_WORLD_SIZE={size}");
    };
    if rank >= size || size > 1 << 18 {
        bail!(Runtime, "[nccl] MLX_RANK={rank} is none of the MLX_WORLD_SIZE={size} processes");
    }
    if size == 1 {
        return Ok(Arc::new(super::Alone));
    }
    let address = format!("{host}:{port}");
    let found = address.to_socket_addrs().ok().and_then(|mut all| all.next());
    let Some(found) = found else {
        bail!(Runtime, "[nccl] NCCL_HOST_IP={host} and NCCL_PORT={port} are no address");
    };
    #[cfg(feature = "vulkan")]
    let uuid = crate::vulkan::adapters().first().map(|a| a.uuid);
    #[cfg(not(feature = "vulkan"))]
    let uuid = None;
    let group = cuda::Gpu::find(cuda, uuid, rank).and_then(|gpu| {
        let post = hub::Post::open(rank, size, found, super::timeout())?;
        group::world(post, group::On { nccl, gpu }, rank, size)
    });
    group.map_err(|why| super::unconnected("nccl", "group", why))
}
