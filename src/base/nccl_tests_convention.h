#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"

// How nccl-tests defines the size and bandwidth of a collective (NVIDIA/nccl-tests,
// doc/PERFORMANCE.md and src/*.cu). For all-reduce, broadcast, reduce and send_recv, the size is
// the bytes of one rank's buffer. For the other kinds, the size is the sum of all ranks' parts.
//
//   algbw = size / time; busbw = algbw x factor
//
// The factor for N ranks is:
//   2 (N - 1) / N for all-reduce;
//   (N - 1) / N for all-gather, reduce-scatter, all-to-all, gather and scatter;
//   1 for broadcast, reduce and send_recv.
namespace stepcast {

// Returns the size that nccl-tests measures if the size `asked` is requested. For all-gather,
// reduce-scatter and all-to-all, nccl-tests rounds each rank's part down to a multiple of 16 bytes.
// The result may be zero.
Bytes NcclTestsSize(CollectiveKind kind, Bytes asked, int ranks);

// Returns the factor by which algbw is multiplied to get busbw. Requires ranks >= 1.
double BusFactor(CollectiveKind kind, int ranks);

// Returns the collective of an nccl-tests program. `program` is a file name ("all_reduce_perf",
// "/opt/nccl-tests/build/alltoall_perf_mpi"), or the name in JSON output ("AllReduce").
std::optional<CollectiveKind> CollectiveOfNcclTest(std::string_view program);

}  // namespace stepcast
