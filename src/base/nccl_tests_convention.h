#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"

// The way in which nccl-tests counts the bytes of a collective and computes bandwidth
// (NVIDIA/nccl-tests, doc/PERFORMANCE.md and src/*.cu). The size is one rank's buffer for
// all-reduce, broadcast, reduce and send_recv. For the other kinds, it is all ranks' parts
// together.
//
//   algbw = size / time; busbw = algbw x factor
//
// The factor of N ranks is:
//   2 (N - 1) / N for all-reduce;
//   (N - 1) / N for all-gather, reduce-scatter, all-to-all, gather and scatter;
//   1 for broadcast, reduce and send_recv.
namespace stepcast {

// Returns the size that nccl-tests uses if the size `asked` is requested. For all-gather,
// reduce-scatter and all-to-all, nccl-tests divides the buffer among the ranks in whole units of 16
// bytes. The result may be zero.
Bytes NcclTestsSize(CollectiveKind kind, Bytes asked, int ranks);

// Returns the factor by which algbw is multiplied to get busbw. Requires ranks >= 1.
double BusFactor(CollectiveKind kind, int ranks);

// Returns the collective that a program of nccl-tests runs. `program` is the program's file name
// ("all_reduce_perf", "/opt/nccl-tests/build/alltoall_perf_mpi") or its name in JSON ("AllReduce").
std::optional<CollectiveKind> CollectiveOfNcclTest(std::string_view program);

}  // namespace stepcast
