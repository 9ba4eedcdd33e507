#pragma once

#include <cstddef>
#include <cstdint>

namespace stepcast::runtime::host {

// Memory of `size` bytes, whole pages, that is to be given back with munmap; null where the system
// has no more. It reads as random numbers that are moderate in every type: as bf16 their magnitudes
// lie between 1/128 and 2, as fp16 between 1 and 2, and as fp32 the upper half decides. Pages are
// the process's common ones until they are written, so what is never written costs nothing, however
// large it is, unless the process may not have a file of 16 MiB (`ulimit -f`): then they are
// written at once. `seed` chooses where the numbers begin.
std::byte* MapRandomPages(std::int64_t size, std::uint64_t seed);

}  // namespace stepcast::runtime::host
