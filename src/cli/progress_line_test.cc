#include <cstdlib>
#include <string>

#include "gtest/gtest.h"
#include "src/cli/progress.h"

namespace stepcast::cli {
namespace {

using std::chrono::seconds;

TEST(ProgressLineTest, RateAndTimeLeftAreOfWhatWasWorkedOut) {
  EXPECT_EQ(ProgressText(0, 0, 20'000, seconds(0)), "0 of 20,000 combinations");
  // 1,000 of 1,234 in 2 s: 500/s; 18,766 are left, 37.5 s.
  EXPECT_EQ(ProgressText(1234, 234, 20'000, seconds(2)),
            "1,234 of 20,000 combinations, 500/s, 38 s left");
  EXPECT_EQ(ProgressText(0, 0, 1, seconds(0)), "0 of 1 combination");
  EXPECT_EQ(ProgressText(234, 234, 20'000, seconds(2)), "234 of 20,000 combinations");
  // One in 2 s: 0.5/s, 400 s for the 200 that are left.
  EXPECT_EQ(ProgressText(1, 0, 201, seconds(2)), "1 of 201 combinations, 0.5/s, 7 min left");
  // 3,600 in an hour; 9,000 are left.
  EXPECT_EQ(ProgressText(3600, 0, 12'600, seconds(3600)),
            "3,600 of 12,600 combinations, 1.0/s, 2 h 30 min left");
}

// The lines that `notice` writes during the work.
std::string Written(std::chrono::milliseconds patience, std::chrono::milliseconds work) {
  std::FILE* file = std::tmpfile();
  {
    const WorkNotice notice("simulating a step", patience, file);
    std::this_thread::sleep_for(work);
  }
  std::string text(static_cast<std::size_t>(std::ftell(file)), ' ');
  std::rewind(file);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
  std::fclose(file);
  return text;
}

TEST(WorkNoticeTest, SaysWhatTakesLong) {
  using std::chrono::milliseconds;
  ::unsetenv("STEPCAST_PROGRESS");
  EXPECT_EQ(Written(std::chrono::hours(1), milliseconds(0)), "");
  const std::string said = Written(milliseconds(5), milliseconds(500));
  constexpr const char* kLine = "stepcast: simulating a step (0 s so far)\n";
  EXPECT_EQ(said.find(kLine), 0U) << said;
  EXPECT_NE(said.find(kLine, 1), std::string::npos) << said;  // again after as long
  ::setenv("STEPCAST_PROGRESS", "0", 1);
  EXPECT_EQ(Written(milliseconds(5), milliseconds(100)), "");
}

}  // namespace
}  // namespace stepcast::cli
