#include <algorithm>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck.h"
#include "rapidcheck/gtest.h"
#include "src/parallel/named_schedules.h"
#include "src/parallel/schedule_check.h"
#include "src/parallel/schedule_text.h"

namespace stepcast::parallel {
namespace {

constexpr PassDurations kEqual{.forward = 1, .backward_input = 1, .backward_weight = 1};

int Most(const std::vector<int>& counts) { return *std::max_element(counts.begin(), counts.end()); }

// Two stages' block: at stage 0 in slots 0, 4, 8 and 13, at stage 1 in 2, 3, 10 and 12. Four chunk
// passes may be alive at a stage, so the second forward moves before the first one returns.
TEST(ControllableMemory, TwoStagesAndTwoMicroBatches) {
  EXPECT_EQ(Print(VHalf(2, 2)),
            "stage 0 holds 0 3: F0.0 F1.0 F0.3 I0.3 W0.3 F1.3 I0.0 I1.3 W1.3 W0.0 I1.0 W1.0\n"
            "stage 1 holds 1 2: F0.1 F0.2 F1.1 F1.2 I0.2 W0.2 I0.1 W0.1 I1.2 W1.2 I1.1 W1.1\n");
}

// arXiv 2405.15362: all passes of a micro-batch, messages in order, and memory independent of the
// number of micro-batches. In chunk passes, of which 1F1B's first stage has 2P: V-Half has P and
// two, V-Min 2P/3 and less than four.
RC_GTEST_PROP(ControllableMemory, ActivationsAreHalfAndAThird, ()) {
  const int stages = *rc::gen::inRange(1, 17);
  const int micro_batches = *rc::gen::inRange(1, 60);
  for (const bool half : {true, false}) {
    const PipelineSchedule schedule = (half ? VHalf : VMin)(stages, micro_batches);
    RC_ASSERT(CheckSchedule(schedule).empty());
    RC_ASSERT(!MessageOutOfOrder(schedule));
    const int most = Most(MostInFlight(schedule));
    if (half) RC_ASSERT(most <= stages + 2);
    if (!half) RC_ASSERT(3 * most < 2 * stages + 12);
  }
}

// With equal passes and enough micro-batches, every stage has the same idle time, whatever their
// number: of 1F1B's 6 (P-1) chunk passes about half with V-Half, two thirds with V-Min.
RC_GTEST_PROP(ControllableMemory, IdleTimeIsAHalfAndTwoThirds, ()) {
  const int stages = *rc::gen::inRange(3, 17);
  const int micro_batches = *rc::gen::inRange(2 * stages, 5 * stages);
  const auto idle = [&](const PipelineSchedule& schedule) { return Time(schedule, kEqual).idle; };
  const std::vector<std::int64_t> half(static_cast<std::size_t>(stages),
                                       3 * stages - (stages % 2 == 0 ? 7 : 4));
  const std::vector<std::int64_t> third(static_cast<std::size_t>(stages),
                                        4 * stages - (stages % 3 == 0 ? 7 : 5));
  RC_ASSERT(idle(VHalf(stages, micro_batches)) == half);
  RC_ASSERT(idle(VMin(stages, micro_batches)) == third);
}

}  // namespace
}  // namespace stepcast::parallel
