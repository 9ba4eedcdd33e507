
#include <algorithm>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/forecast/time_breakdown.h"

namespace stepcast::forecast {
namespace {

using program::Opcode;
using program::Phase;

constexpr std::int64_t kStart = 10, kEnd = 60;  // ps: few enough to look at each one
constexpr int kStreams = 3;

// Kernels of any phase, in sequence on each stream; streams run concurrently.
struct Case {
  program::Program program;
  program::Timeline timeline;
};

Case AnyCase() {
  Case any;
  any.program.kernels.resize(1);
  for (std::uint16_t stream = 0; stream < kStreams; ++stream) {
    std::int64_t time = 0;
    while (time < kEnd + 10) {
      const std::int64_t start = time + *rc::gen::inRange(0, 9);
      const std::int64_t end = start + *rc::gen::inRange(0, 9);
      const auto instruction = static_cast<program::Index>(any.program.step.size());
      any.program.step.push_back({.opcode = Opcode::kKernel,
                                  .phase = static_cast<Phase>(*rc::gen::inRange(0, 3)),
                                  .stream = stream,
                                  .operand = 0});
      any.timeline.operations.push_back({.instruction = instruction,
                                         .issued = Picoseconds(start),
                                         .ready = Picoseconds(start),
                                         .start = Picoseconds(start),
                                         .end = Picoseconds(end)});
      time = end + 1;
    }
  }
  std::stable_sort(any.timeline.operations.begin(), any.timeline.operations.end(),
                   [](const auto& a, const auto& b) { return a.end < b.end; });
  return any;
}

// The phase that owns an instant, found by search: that of the compute stream's kernel, or else the
// earliest phase; -1: none.
int OwnerOf(const Case& any, std::int64_t instant) {
  int owner = -1;
  bool owner_computes = false;
  for (const program::OperationRecord& record : any.timeline.operations) {
    if (record.start.picoseconds() > instant || record.end.picoseconds() <= instant) continue;
    const program::Instruction& kernel = any.program.step[record.instruction];
    const bool computes = kernel.stream == program::Program::kComputeStream;
    const int phase = static_cast<int>(kernel.phase);
    const bool first =
        owner < 0 || (computes && !owner_computes) || (computes == owner_computes && phase < owner);
    if (!first) continue;
    owner = phase;
    owner_computes = computes;
  }
  return owner;
}

RC_GTEST_PROP(KernelSpansProperty, EveryInstantIsThePhasesThatHoldsItFirst, ()) {
  const Case any = AnyCase();
  const KernelSpans kernels =
      KernelSpansOf(any.program, any.timeline, Picoseconds(kStart), Picoseconds(kEnd));
  const Breakdown result = BreakDown(any.program, any.timeline, Picoseconds(kStart),
                                     Picoseconds(kEnd), Picoseconds(kEnd), kernels);
  std::int64_t phases[program::kPhases] = {}, idle = 0;
  for (std::int64_t instant = kStart; instant < kEnd; ++instant) {
    const int owner = OwnerOf(any, instant);
    ++(owner < 0 ? idle : phases[owner]);
  }
  for (int phase = 0; phase < program::kPhases; ++phase) {
    RC_ASSERT(result.time.phase[phase] == Picoseconds(phases[phase]));
  }
  RC_ASSERT(Length(kernels.gaps) == Picoseconds(idle));
  RC_ASSERT(result.time.idle == Picoseconds(idle));
}

// Clusters do not overlap, include every span, and fill the interval together with the gaps.
RC_GTEST_PROP(KernelSpansProperty, ClustersAndGapsFillTheInterval, ()) {
  const Case any = AnyCase();
  const KernelSpans kernels =
      KernelSpansOf(any.program, any.timeline, Picoseconds(kStart), Picoseconds(kEnd));
  std::size_t next = 0;
  Time covered = Length(kernels.gaps);
  Time last = Picoseconds(kStart);
  for (const KernelCluster& cluster : kernels.clusters) {
    RC_ASSERT(cluster.first == next);
    RC_ASSERT(cluster.start >= last);
    next = cluster.last;
    last = cluster.end;
    covered += cluster.end - cluster.start;
  }
  RC_ASSERT(next == kernels.spans.size());
  RC_ASSERT(covered == Picoseconds(kEnd - kStart));
}

}  // namespace
}  // namespace stepcast::forecast
