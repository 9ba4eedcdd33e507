#include "src/study/traced_steps.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/forecast/forecast.h"
#include "src/report/trace.h"
#include "src/scenario/load.h"

namespace stepcast::study {
namespace {

using validate::Activity;
using validate::CauseKind;

class TracedStepsTest : public testing::Test {
 protected:
  TracedStepsTest()
      : folder_(std::filesystem::path(testing::TempDir()) /
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
    return Path(name);
  }

  static scenario::Scenario Gpt2(const std::vector<std::string>& set = {}) {
    scenario::InputCache cache;
    auto scenario = scenario::Load("scenarios/gpt2-ddp/scenario.yaml", set, cache);
    EXPECT_TRUE(scenario.has_value());
    return *scenario;
  }

  static forecast::Run RunOf(const scenario::Scenario& scenario) {
    auto run = forecast::Simulate(scenario);
    EXPECT_TRUE(run.has_value());
    return *std::move(run);
  }

  // What --trace writes.
  std::string TraceOf(const forecast::Run& run, int rank) const {
    std::string text;
    const auto written =
        report::WriteTrace(run, {.scenario = "test", .rank = rank, .ranks = 8},
                           [&text](std::string_view part) -> tl::expected<void, std::string> {
                             text += part;
                             return {};
                           });
    EXPECT_TRUE(written.has_value());
    return text;
  }

  std::string CodeOf(const Result<TracedSteps>& traced) const {
    return traced ? "" : traced.error().front().code;
  }

 private:
  std::filesystem::path folder_;
};

// A forecast's own trace is the forecast's step: nothing is left to explain.
TEST_F(TracedStepsTest, ReadsTheTraceOfAForecastBack) {
  const forecast::Run run = RunOf(Gpt2());
  const auto traced = ReadTracedSteps(Write("t.json", TraceOf(run, 0)), run, 8);
  ASSERT_TRUE(traced.has_value()) << Format(traced.error());
  ASSERT_EQ(traced->ranks.size(), 1u);
  const validate::StepCauses causes = validate::CausesOf(run, traced->ranks);
  const double step = run.forecast.step_time.seconds();
  EXPECT_NEAR(causes.measured.seconds(), step, 1e-6 * step);
  for (const validate::Cause& cause : causes.causes) {
    EXPECT_LT(std::abs(cause.difference().seconds()), 1e-3 * step) << Name(cause.kind);
  }
  EXPECT_LT(std::abs(causes.remainder.seconds()), 1e-3 * step);
}

// PyTorch's trace has the steps on the host, and the libraries' names. Microseconds. The device
// ends what was launched in the steps at 1130, 2145 and 3190.
TEST_F(TracedStepsTest, ReadsATraceOfPyTorch) {
  std::string events;
  int correlation = 0;
  const auto add = [&](const char* category, const std::string& name, int start, int duration,
                       const std::string& arguments = "") {
    events += fmt::format(
        "{}{{\"ph\": \"X\", \"cat\": \"{}\", \"name\": \"{}\", \"pid\": 1, \"tid\": 1, \"ts\": "
        "{}, \"dur\": {}, \"args\": {{{}}}}}",
        events.empty() ? "" : ",\n", category, name, start, duration, arguments);
  };
  const auto kernel = [&](const std::string& name, int launch, int start, int duration,
                          const std::string& more = "") {
    const std::string own = fmt::format("\"correlation\": {}", ++correlation);
    add("cuda_runtime", "cudaLaunchKernel", launch, 5, own);
    add("kernel", name, start, duration, own + more);
  };
  for (int step = 0; step < 3; ++step) {
    const int begin = 1000 * step;
    add("user_annotation", fmt::format("ProfilerStep#{}", step), begin, 990);
    add("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", begin,
        40);
    kernel("sm80_xmma_gemm_bf16", begin + 50, begin + 100, 300);
    kernel("pytorch_flash::flash_fwd_kernel", begin + 60, begin + 400, 200);
    kernel("void at::native::vectorized_elementwise_kernel", begin + 70, begin + 600, 100);
    kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", begin + 80, begin + 650, 150 + 15 * step,
           ", \"Collective name\": \"allreduce\", \"In msg nelems\": 1000, \"dtype\": "
           "\"BFloat16\", \"Group size\": 8, \"Process Group Ranks\": \"[0, 1, 2, 3, 4, 5, 6, "
           "7]\"");
    add("user_annotation", "Optimizer.step#AdamW.step", begin + 90, 30);
    kernel("some_update", begin + 100, begin + 900, 230 + 15 * step * step);
  }
  const forecast::Run run = RunOf(Gpt2());
  const auto traced = ReadTracedSteps(
      Write("rank3.json", fmt::format("{{\"traceEvents\": [\n{}\n]}}", events)), run, 8);
  ASSERT_TRUE(traced.has_value()) << Format(traced.error());
  // The first is left out; of the others, from 1130 to 2145 and from 2145 to 3190, the median is
  // the lower.
  EXPECT_EQ(traced->number, 1);
  ASSERT_EQ(traced->ranks.size(), 1u);
  const validate::RankStep& step = traced->ranks[0];
  EXPECT_EQ(step.rank, 3);
  EXPECT_EQ(step.begin, Microseconds(1130));
  EXPECT_EQ(step.end, Microseconds(2145));
  const auto find = [&](Activity activity) {
    return *std::find_if(step.events.begin(), step.events.end(), [&](const auto& event) {
      return event.activity == activity && event.step == 0;
    });
  };
  EXPECT_EQ(find(Activity::kProduct).begin, Microseconds(1100));
  EXPECT_EQ(find(Activity::kAttention).begin, Microseconds(1400));
  EXPECT_EQ(find(Activity::kElementwise).launched, Microseconds(1075));
  EXPECT_EQ(find(Activity::kOptimizer).name, "some_update");
  const validate::StepEvent reduction = find(Activity::kCollective);
  EXPECT_EQ(reduction.name, "data");
  EXPECT_EQ(reduction.members, "0,1,2,3,4,5,6,7");
  EXPECT_EQ(reduction.bytes, Bytes(2000));
  EXPECT_EQ(step.host.front().activity, validate::HostActivity::kDataLoading);
}

TEST_F(TracedStepsTest, RefusesWhatIsNoTraceOfTheScenario) {
  const forecast::Run run = RunOf(Gpt2());
  EXPECT_EQ(CodeOf(ReadTracedSteps(Write("a.json", "no json"), run, 8)), "file.not-json");
  EXPECT_EQ(CodeOf(ReadTracedSteps(Write("b.json", "{\"traceEvents\": []}"), run, 8)),
            "kineto.no-kernels");
  EXPECT_EQ(CodeOf(ReadTracedSteps(Path("none.json"), run, 8)), "file.not-found");
  std::filesystem::create_directories(Path("empty"));
  EXPECT_EQ(CodeOf(ReadTracedSteps(Path("empty"), run, 8)), "traced.no-traces");
  const std::string trace = TraceOf(run, 7);
  EXPECT_EQ(CodeOf(ReadTracedSteps(Write("c.json", trace), run, 4)), "traced.other-cluster");
  std::filesystem::create_directories(Path("twice"));
  Write("twice/a.json", trace);
  Write("twice/b.json", trace);
  EXPECT_EQ(CodeOf(ReadTracedSteps(Path("twice"), run, 8)), "traced.same-rank");
  scenario::InputCache cache;
  const forecast::Run other = RunOf(Gpt2({"model=models/llama3.1-8b.yaml"}));
  EXPECT_EQ(CodeOf(ReadTracedSteps(Write("d.json", trace), other, 8)), "traced.other-model");
}

TEST_F(TracedStepsTest, KnowsKernelsOfLibrariesByName) {
  for (const char* product :
       {"ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", "nvjet_hsh_128x256_64x4",
        "Cijk_Alik_Bljk_BBS_BH_MT128x128", "void cutlass::Kernel2<cutlass_80>",
        "sm80_xmma_fprop_implicit_gemm", "void cublasLt::splitKreduce_kernel"}) {
    EXPECT_EQ(ActivityOf(product), Activity::kProduct) << product;
  }
  for (const char* attention :
       {"void flash::flash_bwd_dq_dk_dv_loop", "fmha_cutlassF_bf16_aligned", "cudnn_sdpa_fprop"}) {
    EXPECT_EQ(ActivityOf(attention), Activity::kAttention) << attention;
  }
  EXPECT_EQ(ActivityOf("void at::native::multi_tensor_apply_kernel<...>"), Activity::kOptimizer);
  EXPECT_EQ(ActivityOf("void at::native::vectorized_layer_norm_kernel"), Activity::kElementwise);
}

}  // namespace
}  // namespace stepcast::study
