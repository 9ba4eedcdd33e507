#include "src/runtime/join.h"

#include <chrono>
#include <thread>

#include "gtest/gtest.h"

namespace stepcast::runtime {
namespace {

using messaging::Launch;
using messaging::Launcher;

TEST(StartLimit, EndsAProcessWhoseOthersDoNotCome) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const Launch launch{.launcher = Launcher::kMpi, .rank = 0, .ranks = 3};
  EXPECT_EXIT(
      {
        const StartLimit limit(launch, std::chrono::milliseconds(100));
        std::this_thread::sleep_for(std::chrono::seconds(60));
      },
      testing::ExitedWithCode(1),
      "stepcast: rank 0 on '.*': not all of 3 ranks have started within 0.1 s");
}

TEST(StartLimit, MeansNothingOnceAllHaveMet) {
  { const StartLimit limit(Launch{}, std::chrono::milliseconds(50)); }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

}  // namespace
}  // namespace stepcast::runtime
