#include <string>

#include "gtest/gtest.h"
#include "src/base/time.h"
#include "src/study/comparison.h"

namespace stepcast::study {
namespace {

forecast::Forecast Plan(Time step, Bytes reserved, double tokens_per_second) {
  forecast::Forecast forecast;
  forecast.step_time = step;
  forecast.memory.reserved = reserved;
  forecast.memory.outside = Bytes(1);
  forecast.tokens_per_second = tokens_per_second;
  return forecast;
}

bool Fails(const std::string& text, const forecast::Forecast& a, const forecast::Forecast& b) {
  Diagnostics faults;
  const auto guards = ReadGuards({text}, faults);
  EXPECT_TRUE(faults.empty()) << text;
  return !guards.empty() && VerdictOf(guards[0], a, b).failed;
}

// The step gets 3 % longer, the device needs 1 GiB more, and tokens/s fall by 3 %.
TEST(GuardTest, FailsBeyondItsLimit) {
  const auto a = Plan(Seconds(100), Bytes(std::int64_t{10} << 30), 1000);
  const auto b = Plan(Seconds(103), Bytes(std::int64_t{11} << 30), 970);
  EXPECT_TRUE(Fails("step_time>+2%", a, b));
  EXPECT_FALSE(Fails("step_time>+3%", a, b));
  EXPECT_TRUE(Fails("step_time>+2 s", a, b));
  EXPECT_FALSE(Fails("step_time>+4s", a, b));
  EXPECT_FALSE(Fails("memory>+1GiB", a, b));
  EXPECT_TRUE(Fails("memory>+1023 MiB", a, b));
  EXPECT_TRUE(Fails("tokens_per_second<-2%", a, b));
  EXPECT_FALSE(Fails("tokens_per_second<-40", a, b));
  EXPECT_TRUE(Fails("step_time>+0%", a, b));
  EXPECT_FALSE(Fails("step_time>+0%", a, a));
  EXPECT_FALSE(Fails("step_time<-1%", a, b));
  EXPECT_TRUE(Fails("step_time<-1%", b, a));
}

TEST(GuardTest, SaysByHowMuch) {
  Diagnostics faults;
  const auto guards = ReadGuards({"step_time>+2%"}, faults);
  const auto verdict =
      VerdictOf(guards.at(0), Plan(Seconds(100), {}, 0), Plan(Seconds(103), {}, 0));
  EXPECT_EQ(verdict.sentence, "fails: step_time is 103 s in B and 100 s in A, +3 s (+3.0 %)");
}

TEST(GuardTest, NamesWhatIsNoGuard) {
  for (const char* text : {"", "step_time", "step_time>", "step_time>2%", "speed>+2%",
                           "step_time>+2", "memory>+1s", "step_time>+x%", ">+2%"}) {
    Diagnostics faults;
    EXPECT_TRUE(ReadGuards({text}, faults).empty()) << text;
    ASSERT_EQ(faults.size(), 1U) << text;
    EXPECT_EQ(faults[0].location.file, std::string("--fail-if ") + text);
  }
}

}  // namespace
}  // namespace stepcast::study
