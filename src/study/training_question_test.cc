#include "src/study/training_question.h"

#include <string>

#include "gtest/gtest.h"
#include "src/forecast/training_run.h"

namespace stepcast::study {
namespace {

TEST(TrainingQuestionTest, ReadsUnits) {
  Diagnostics faults;
  const auto target = ReadTraining(
      {.tokens = "15T", .deadline = "60 d", .price = "$2.5", .availability = "90%"}, faults);
  EXPECT_TRUE(faults.empty());
  EXPECT_EQ(target.tokens, 15e12);
  EXPECT_EQ(target.deadline, 60 * 86'400.0);
  EXPECT_EQ(target.gpu_hour_price, 2.5);
  EXPECT_EQ(target.currency, "$");
  EXPECT_EQ(target.availability, 0.9);
  const auto plain = ReadTraining(
      {.tokens = "1.5 B", .deadline = "", .price = "2", .availability = "0.5"}, faults);
  EXPECT_TRUE(faults.empty());
  EXPECT_EQ(plain.tokens, 1.5e9);
  EXPECT_EQ(plain.currency, "");
  EXPECT_EQ(plain.availability, 0.5);
}

// All mistakes at once, each at its location.
TEST(TrainingQuestionTest, NamesEveryMistake) {
  Diagnostics faults;
  ReadTraining({.tokens = "15X", .deadline = "soon", .price = "free", .availability = "110%"},
               faults);
  std::string places;
  for (const Diagnostic& fault : faults) {
    places += fault.location.file + ";";
    EXPECT_FALSE(fault.hint.empty());
  }
  EXPECT_EQ(places, "--tokens 15X;--deadline soon;--price free;--availability 110%;");
}

TEST(TrainingQuestionTest, ADeadlineNeedsTokensAndAvailabilityATraining) {
  Diagnostics faults;
  ReadTraining({.tokens = "", .deadline = "1 d", .price = "", .availability = "0.9"}, faults);
  ASSERT_EQ(faults.size(), 2U);
  EXPECT_EQ(faults[0].message, "--deadline needs the number of training tokens (--tokens)");
  EXPECT_EQ(faults[1].message, "--availability has an effect only with --tokens or --price");
}

}  // namespace
}  // namespace stepcast::study
