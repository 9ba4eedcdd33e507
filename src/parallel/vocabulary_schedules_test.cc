#include "src/parallel/vocabulary_schedules.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck.h"
#include "rapidcheck/gtest.h"
#include "src/parallel/schedule_check.h"
#include "src/parallel/schedule_text.h"
#include "src/parallel/schedule_timing.h"

namespace stepcast::parallel {
namespace {

int Most(const std::vector<int>& counts) { return *std::max_element(counts.begin(), counts.end()); }

// Of the last stage: S of the first micro-batch behind its forward, T an interval later and the
// backward behind that (two barriers), so that three micro-batches are in flight where 1F1B has
// one. From stage to stage upwards a backward comes two slots later and S stays where it is in
// time: one S more comes before the first backward, but for every third stage, whose forward comes
// before S.
TEST(VocabularySchedulesTest, Vocab1OfFourStagesAndEightMicroBatches) {
  EXPECT_EQ(Print(*ScheduleWithVocabulary("1f1b", Vocabulary::kVocab1, 4, 8)),
            "stage 0: E0 E1 F0 E2 F1 E3 F2 E4 F3 S0 E5 F4 T0 S1 F5 T1 S2 T2 S3 T3 S4 E6 B0 F6 "
            "T4 S5 E7 B1 F7 T5 S6 G0 B2 T6 S7 G1 B3 T7 G2 B4 G3 B5 G4 B6 G5 B7 G6 G7\n"
            "stage 1: E0 E1 E2 F0 E3 F1 E4 F2 S0 E5 F3 T0 S1 F4 T1 S2 T2 S3 B0 T3 S4 E6 F5 B1 "
            "T4 S5 E7 F6 B2 T5 S6 G0 F7 B3 T6 S7 G1 B4 T7 G2 B5 G3 B6 G4 B7 G5 G6 G7\n"
            "stage 2: E0 E1 E2 E3 F0 E4 F1 S0 E5 F2 T0 S1 F3 T1 S2 B0 T2 S3 F4 B1 T3 S4 E6 F5 "
            "B2 T4 S5 E7 F6 B3 T5 S6 G0 F7 B4 T6 S7 G1 B5 T7 G2 B6 G3 B7 G4 G5 G6 G7\n"
            "stage 3: E0 E1 E2 E3 E4 F0 S0 E5 F1 T0 S1 F2 B0 T1 S2 F3 B1 T2 S3 F4 B2 T3 S4 E6 "
            "F5 B3 T4 S5 E7 F6 B4 T5 S6 G0 F7 B5 T6 S7 G1 B6 T7 G2 B7 G3 G4 G5 G6 G7\n");
}

// One barrier: the last stage's backward follows S by a forward, and T comes behind it.
TEST(VocabularySchedulesTest, Vocab2OfFourStagesAndEightMicroBatches) {
  EXPECT_EQ(Print(*ScheduleWithVocabulary("1f1b", Vocabulary::kVocab2, 4, 8)),
            "stage 0: E0 E1 F0 E2 F1 E3 F2 E4 F3 S0 F4 T0 S1 T1 S2 T2 S3 E5 B0 F5 T3 S4 E6 B1 "
            "F6 T4 S5 E7 G0 B2 F7 T5 S6 G1 B3 T6 S7 G2 B4 T7 G3 B5 G4 B6 G5 B7 G6 G7\n"
            "stage 1: E0 E1 E2 F0 E3 F1 E4 F2 S0 F3 T0 S1 T1 S2 B0 T2 S3 E5 F4 B1 T3 S4 E6 F5 "
            "B2 T4 S5 E7 G0 F6 B3 T5 S6 G1 F7 B4 T6 S7 G2 B5 T7 G3 B6 G4 B7 G5 G6 G7\n"
            "stage 2: E0 E1 E2 E3 F0 E4 F1 S0 F2 T0 S1 B0 T1 S2 F3 B1 T2 S3 E5 F4 B2 T3 S4 E6 "
            "F5 B3 T4 S5 E7 G0 F6 B4 T5 S6 G1 F7 B5 T6 S7 G2 B6 T7 G3 B7 G4 G5 G6 G7\n"
            "stage 3: E0 E1 E2 E3 E4 F0 S0 F1 B0 T0 S1 F2 B1 T1 S2 F3 B2 T2 S3 E5 F4 B3 T3 S4 "
            "E6 F5 B4 T4 S5 E7 G0 F6 B5 T5 S6 G1 F7 B6 T6 S7 G2 B7 T7 G3 G4 G5 G6 G7\n");
}

// All stages run S and T of a micro-batch at the same time; six forwards come before the first.
TEST(VocabularySchedulesTest, InterlacedOfFourStagesAndEightMicroBatches) {
  EXPECT_EQ(Print(*ScheduleWithVocabulary("1f1b", Vocabulary::kInterlaced, 4, 8)),
            "stage 0: E0 E1 F0 E2 F1 E3 F2 E4 F3 E5 F4 E6 F5 S0 T0 S1 T1 S2 T2 S3 T3 E7 B0 S4 "
            "T4 F6 B1 S5 T5 G0 F7 B2 S6 T6 G1 B3 S7 T7 G2 B4 B5 B6 B7 G3 G4 G5 G6 G7\n"
            "stage 1: E0 E1 E2 F0 E3 F1 E4 F2 E5 F3 E6 F4 S0 T0 S1 T1 S2 T2 B0 S3 T3 E7 B1 F5 "
            "S4 T4 B2 F6 S5 T5 G0 B3 F7 S6 T6 G1 B4 S7 T7 G2 B5 B6 B7 G3 G4 G5 G6 G7\n"
            "stage 2: E0 E1 E2 E3 F0 E4 F1 E5 F2 E6 F3 S0 T0 S1 T1 B0 S2 T2 B1 S3 T3 E7 F4 B2 "
            "S4 T4 F5 B3 S5 T5 G0 F6 B4 S6 T6 G1 F7 B5 S7 T7 G2 B6 B7 G3 G4 G5 G6 G7\n"
            "stage 3: E0 E1 E2 E3 E4 F0 E5 F1 E6 F2 S0 T0 B0 S1 T1 B1 S2 T2 B2 F3 S3 T3 E7 B3 "
            "F4 S4 T4 B4 F5 S5 T5 G0 B5 F6 S6 T6 G1 B6 F7 S7 T7 G2 B7 G3 G4 G5 G6 G7\n");
}

// The block of two stages (controllable_memory_schedules_test.cc) with backwards twelve slots
// later.
TEST(VocabularySchedulesTest, VHalfOfTwoStagesAndFourMicroBatches) {
  EXPECT_EQ(Print(*ScheduleWithVocabulary("v_half", Vocabulary::kVocab1, 2, 4)),
            "stage 0 holds 0 3: E0 E1 E2 E3 F0.0 F1.0 F2.0 F0.3 S0 F3.0 F1.3 S1 T0 I0.3 F2.3 "
            "S2 W0.3 F3.3 S3 T1 I0.0 T2 I1.3 W1.3 T3 W0.0 I1.0 I2.3 G0 W2.3 W1.0 I2.0 I3.3 G1 "
            "W3.3 W2.0 I3.0 W3.0 G2 G3\n"
            "stage 1 holds 1 2: E0 E1 E2 E3 F0.1 F0.2 F1.1 S0 F1.2 F2.1 S1 T0 F2.2 F3.1 S2 "
            "F3.2 I0.2 S3 W0.2 T1 I0.1 W0.1 T2 I1.2 T3 W1.2 I1.1 W1.1 G0 I2.2 W2.2 I2.1 W2.1 "
            "G1 I3.2 W3.2 I3.1 W3.1 G2 G3\n");
}

// arXiv 2411.05288, sections 4 and 5 and appendix B.1: 1F1B has P+2 micro-batches in flight with
// two barriers, P+1 with one and 3P/2 interlaced; V-Half its own and two chunks' passes an
// interval.
RC_GTEST_PROP(VocabularySchedulesTest, CanRunAndKeepWhatThePaperSays, ()) {
  const int stages = *rc::gen::inRange(1, 17);
  const int micro_batches = *rc::gen::inRange(1, 60);
  for (const Vocabulary vocabulary :
       {Vocabulary::kVocab1, Vocabulary::kVocab2, Vocabulary::kInterlaced}) {
    for (const char* name : {"1f1b", "v_half"}) {
      const auto schedule = ScheduleWithVocabulary(name, vocabulary, stages, micro_batches);
      if (!schedule) continue;
      const auto mistakes = CheckSchedule(*schedule);
      RC_ASSERT(mistakes.empty());
      RC_ASSERT(!MessageOutOfOrder(*schedule));
      const int most = Most(MostInFlight(*schedule));
      const int barriers = vocabulary == Vocabulary::kVocab1 ? 2 : 1;
      if (name == std::string("v_half")) {
        RC_ASSERT(most <= stages + 2 + 2 * barriers);
        continue;
      }
      const int in_flight =
          vocabulary == Vocabulary::kInterlaced ? stages * 3 / 2 : stages + barriers;
      RC_ASSERT(most == std::min(in_flight, micro_batches));
      if (micro_batches < 2 * stages) continue;
      // With passes over the vocabulary as long as they want: a stage that has all forwards ahead
      // is never idle but for 1F1B's bubble and an interval for each barrier.
      const ScheduleTiming timing = Time(*schedule, {.forward = 4,
                                                     .backward_input = 8,
                                                     .backward_weight = 0,
                                                     .backward = 8,
                                                     .vocabulary_s = 1,
                                                     .vocabulary_t = 1});
      RC_ASSERT(timing.idle.front() <= (stages - 1 + barriers) * 14);
    }
  }
}

}  // namespace
}  // namespace stepcast::parallel
