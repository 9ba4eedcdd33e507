#include <string>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/calibrate/session.h"

namespace stepcast::calibrate {
namespace {

RC_GTEST_PROP(MeasurementStateTest, IsReadBackToTheSameValues, (std::string binding)) {
  MeasurementState state(binding);
  const int count = *rc::gen::inRange(0, 10);
  for (int i = 0; i < count; ++i) {
    const auto number = [] { return static_cast<double>(*rc::gen::inRange(1, 1'000'000)) / 7e9; };
    const double low = number();
    const Summary summary{low + number(), low, low + 2 * number(), number(),
                          static_cast<std::size_t>(*rc::gen::inRange(1, 1000))};
    state.Add("key " + std::to_string(i), summary);
  }
  const auto read = MeasurementState::Parse(state.Text());
  RC_ASSERT(read.has_value());
  RC_ASSERT(read->binding() == state.binding());
  for (int i = 0; i < count; ++i) {
    const std::string key = "key " + std::to_string(i);
    RC_ASSERT(read->Find(key) != nullptr && *read->Find(key) == *state.Find(key));
  }
}

TEST(MeasurementStateTest, RefusesWhatIsNone) {
  MeasurementState state("here");
  state.Add("a", Summary{2, 1, 3, 0.5, 4});
  const std::string whole = state.Text();
  EXPECT_TRUE(MeasurementState::Parse(whole));
  // A state cut at any position is refused.
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(MeasurementState::Parse(whole.substr(0, length))) << length;
  }
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    return text.replace(text.find(from), from.size(), to);
  };
  EXPECT_FALSE(MeasurementState::Parse(changed("state 1", "state 2")));
  EXPECT_FALSE(MeasurementState::Parse(changed("a\t2\t", "a\t-2\t")));
  EXPECT_FALSE(MeasurementState::Parse(changed("a\t2\t", "a\tinf\t")));
  EXPECT_FALSE(MeasurementState::Parse(changed("\t4\n", "\t0\n")));
}

}  // namespace
}  // namespace stepcast::calibrate
