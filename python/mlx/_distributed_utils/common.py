"""Host files: which machines a program runs on, and how they are reached."""

import ipaddress
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self


@dataclass
class Host:
    """A process's machine: its rank, its name for ssh, its addresses and its RDMA devices."""

    rank: int
    ssh_hostname: str
    ips: list[str]
    rdma: list[str | list[str] | None]


@dataclass
class Hostfile:
    """The machines of a program, the backend that connects them and variables for them.

    >>> [host.ips for host in Hostfile.from_list("10.0.0.1,10.0.0.2").hosts]
    [['10.0.0.1'], ['10.0.0.2']]
    """

    hosts: list[Host]
    backend: str = ""
    envs: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """What :meth:`from_file` reads."""
        hosts = [{"ssh": h.ssh_hostname, "ips": h.ips, "rdma": h.rdma} for h in self.hosts]
        return {"backend": self.backend, "envs": self.envs, "hosts": hosts}

    @classmethod
    def from_file(cls, hostfile: str | Path) -> Self:
        """Read a JSON file.

        It holds a list of machines, objects with ``ssh`` and, optionally, ``ips`` and ``rdma``, or
        an object with that list as ``hosts`` and, optionally, ``backend`` and ``envs``.

        Raises:
            ValueError: if there is no such file or it holds anything else.
        """
        path = Path(hostfile)
        if not path.exists():
            raise ValueError(f"Hostfile {hostfile} doesn't exist")
        try:
            data = json.loads(path.read_text())
            data = {"hosts": data} if isinstance(data, list) else data
            hosts = [
                Host(rank, h["ssh"], h.get("ips", []), h.get("rdma", []))
                for rank, h in enumerate(data["hosts"])
            ]
            return cls(hosts, data.get("backend", ""), data.get("envs", []))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"Failed to parse hostfile {hostfile} ({error})") from error

    @classmethod
    def from_list(cls, hostlist: str, repeats: int = 1) -> Self:
        """Names or addresses with commas between them, each for ``repeats`` processes."""
        hosts: list[Host] = []
        for name in hostlist.split(","):
            try:
                ips = [str(ipaddress.ip_address(name))]
            except ValueError:
                ips = []
            hosts += [Host(len(hosts) + i, name, ips, []) for i in range(repeats)]
        return cls(hosts)
