#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"

// How nccl-tests counts the bytes of a collective, and what it divides by what: NVIDIA/nccl-tests,
// doc/PERFORMANCE.md and src/*.cu. Its size is the buffer of a rank for all-reduce, broadcast,
// reduce and send_recv, and all ranks' parts together for the others.
//
//   algbw = size / time            busbw = algbw x factor
//   factor: all-reduce 2 (N - 1) / N;
//           all-gather, reduce-scatter, all-to-all, gather, scatter (N - 1) / N;
//           broadcast, reduce, send_recv 1
namespace stepcast {

// The size that nccl-tests runs when `asked` is asked for: it deals the buffer out to the ranks
// evenly, in whole units of 16 bytes for all-gather, reduce-scatter and all-to-all. May be zero.
Bytes NcclTestsSize(CollectiveKind kind, Bytes asked, int ranks);

// busbw over algbw. Requires ranks >= 1.
double BusFactor(CollectiveKind kind, int ranks);

// The collective that a program of nccl-tests measures, by its file ("all_reduce_perf",
// "/opt/nccl-tests/build/alltoall_perf_mpi") or by the name in its JSON ("AllReduce").
std::optional<CollectiveKind> CollectiveOfNcclTest(std::string_view program);

}  // namespace stepcast
