// Strided indexing for hand-written kernels: positions in elements, lengths and strides as ints in a
// parameter block. The includer declares `Params` with a member `int v[]`.

// Element offset of the row-major position `linear` in a shape of `ndim` axes at `shape`, with strides at
// `strides` (both positions in the block).
int strided_offset(Params q, uint linear, int ndim, int shape, int strides) {
  int at = 0;
  for (int d = ndim - 1; d >= 0; d--) {
    const uint len = uint(q.v[shape + d]), next = linear / len;
    at += int(linear - next * len) * q.v[strides + d];
    linear = next;
  }
  return at;
}
