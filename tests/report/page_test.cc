#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/cli/command_test.h"
#include "tests/samples/samples.h"

// Opens report pages in a headless Chromium like a reader: no error, no request, marks drawn,
// values on hover and by keyboard, in light and dark, and no serious finding of axe-core, which
// checks accessibility. The screenshots are stored with the test's outputs.
namespace stepcast {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStepcast = "src/cli/stepcast";
constexpr const char* kNodeModules = "external/playwright/node_modules";

std::string Find(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    for (const char* folder : {"/usr/bin", "/usr/local/bin"}) {
      const std::string path = fmt::format("{}/{}", folder, name);
      if (::access(path.c_str(), X_OK) == 0) return path;
    }
  }
  return "";
}

fs::path Outputs() {
  const char* folder = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
  return folder != nullptr ? fs::path(folder) : fs::path(::testing::TempDir());
}

class PageTest : public ::testing::Test {
 protected:
  // Runs a command that writes its page to the path in place of {}, and must exit with one of the
  // statuses.
  static std::string Make(const std::string& name, const std::string& command,
                          const std::vector<int>& statuses = {0}) {
    const std::string page = (Outputs() / (name + ".html")).string();
    const cli::ShellResult result =
        cli::Shell(fmt::format("{} {}", kStepcast, fmt::format(fmt::runtime(command), page)));
    EXPECT_THAT(statuses, testing::Contains(result.status)) << result.messages;
    constexpr std::uintmax_t kMostBytes = 2'000'000;
    EXPECT_LE(fs::file_size(page), kMostBytes);
    return page;
  }

  static void Open(const std::string& name, const std::string& page) {
    const std::string chromium = Find({"chromium", "chromium-browser", "google-chrome"});
    if (chromium.empty())
      GTEST_SKIP() << "no Chromium is installed (tools/setup --test installs it)";
    const std::string node = Find({"node", "nodejs"});
    if (node.empty()) GTEST_SKIP() << "no Node.js is installed (tools/setup --test installs it)";
    const cli::ShellResult result = cli::Shell(
        fmt::format("HOME={} {} tests/report/open_page.js {} {} {} {} 2>&1", ::testing::TempDir(),
                    node, kNodeModules, chromium, page, (Outputs() / name).string()));
    EXPECT_EQ(result.status, 0) << result.output;
    std::cout << result.output << "\n";
  }
};

TEST_F(PageTest, Simulate) {
  Open("simulate", Make("simulate", "simulate scenarios/llama3-8b-fsdp/scenario.yaml --report {}"));
}

// The largest page of the scenarios: 64 stages with 512 micro-batches.
TEST_F(PageTest, SimulateManyStages) {
  Open("stages", Make("stages", "simulate scenarios/gpt3-1t-megatron/scenario.yaml --report {}"));
}

TEST_F(PageTest, SweepOverOneKey) {
  Open("sweep-one", Make("sweep-one",
                         "sweep scenarios/bucket-sweep/scenario.yaml --report {} --vary "
                         "'data_parallel.bucket_size=1 MiB,5 MiB,25 MiB,100 MiB,400 MiB'"));
}

// Three keys; some combinations are illegal, and some do not fit.
TEST_F(PageTest, SweepOverThreeKeys) {
  Open("sweep-three", Make("sweep-three",
                           "sweep scenarios/four-million-tokens/scenario.yaml --report {} "
                           "--vary cluster.nodes=16,32,64,128 "
                           "--vary training.micro_batch_size=1,2,4,8 "
                           "--vary data_parallel.reshard_after_forward=true,false"));
}

TEST_F(PageTest, Plan) {
  Open("plan",
       Make("plan",
            "plan scenarios/gpt2-ddp/scenario.yaml --framework ddp --only data --report {}"));
}

TEST_F(PageTest, Compare) {
  Open("compare", Make("compare",
                       "compare scenarios/gpt2-ddp/scenario.yaml --report {} "
                       "--set-b training.micro_batch_size=8"));
}

TEST_F(PageTest, Memory) {
  Open("memory",
       Make("memory", "memory scenarios/gpt2-ddp/scenario.yaml --max-micro-batch --report {}"));
}

TEST_F(PageTest, Explain) {
  Open("explain", Make("explain", "explain scenarios/llama3-8b-fsdp/scenario.yaml --report {}"));
}

TEST_F(PageTest, CollectiveOnEightRanks) {
  Open("collective", Make("collective",
                          "collective scenarios/llama3-8b-fsdp/scenario.yaml --ranks 8 "
                          "--report {}"));
}

TEST_F(PageTest, Schedule) {
  Open("schedule", Make("schedule",
                        "schedule --stages 4 --micro-batches 8 --schedule zb_h1 "
                        "--report {}"));
}

// One source has charts of times and of memory; forecasts of all sources would take minutes.
TEST_F(PageTest, ValidatePublished) {
  const std::string sources = Samples("--source torchtitan", "");
  Open("published", Make("published", "validate published " + sources + " --report {}", {0, 3}));
}

TEST_F(PageTest, ValidateOnThisMachine) {
  Open("validate", Make("validate",
                        "validate scenarios/this-machine/scenario.yaml --backend host --steps 3 "
                        "--set cluster.topology.devices=2 --within 100000% --report {}"));
}

}  // namespace
}  // namespace stepcast
