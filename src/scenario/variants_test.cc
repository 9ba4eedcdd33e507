// Scenarios read as variants equal those that Load reads one by one, including their mistakes.

#include "src/scenario/variants.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/scenario/load.h"

namespace stepcast::scenario {
namespace {

constexpr const char* kText = R"(
stepcast: 1
model: models/gpt2.yaml
cluster: {topology: topologies/dgx-h100.yaml, nodes: 2}
software: {driver: "550.0"}
training: {sequence_length: 1024, micro_batch_size: 1, gradient_accumulation: 2, precision: bf16,
           optimizer: adamw, gradient_clipping: 1.0}
data_parallel: {zero_stage: 0, framework: ddp}
)";

// Without the numbers that the rows set, and with layers whose times are given.
constexpr const char* kBare = R"(
stepcast: 1
model:
  kind: layers
  layers: [{name: b, repeat: 2, parameters: [1000], forward: 1 ms, backward: 2 ms, activation: 0 B}]
  optimizer_step: 0 ms
cluster:
  topology: {kind: flat, devices: 8, memory: 80 GiB, link: {latency: 5 us, bandwidth: 25 GB/s}}
training: {sequence_length: 128, precision: bf16, optimizer: adamw}
data_parallel: {framework: reference}
)";

std::string FileWith(const char* name, const char* text) {
  const char* folder = std::getenv("TEST_TMPDIR");
  const std::filesystem::path path =
      (folder != nullptr ? std::filesystem::path(folder) : std::filesystem::temp_directory_path()) /
      name;
  std::ofstream(path) << text;
  return path.string();
}

struct Key {
  const char* name;
  std::vector<const char*> values;
};

// Values that are right, wrong, or right only with some others.
const std::vector<Key>& Keys() {
  static const auto& keys = *new std::vector<Key>{
      {"cluster.nodes", {"1", "2", "3", "4", "0", "x", "null", "500000"}},
      {"training.micro_batch_size", {"1", "2", "8", "100000", "-1", "null", "\"2\""}},
      {"training.gradient_accumulation", {"1", "4", "1.5", "null", "99999"}},
      {"training.global_batch_size", {"64", "128", "7", "null"}},
      {"training.activation_checkpointing", {"none", "full", "ful", "selective"}},
      {"training.checkpointed_blocks", {"all", "1/2", "3/2"}},
      {"training.gradient_clipping", {"none", "1.0", "0.5", "-3", "null"}},
      {"training.precision", {"bf16", "fp32", "fp8"}},
      {"training.parameter_dtype", {"bf16", "fp32"}},
      {"training.sequence_length", {"512", "1024", "4096"}},
      {"training.data_loading", {"{time: 1 ms}", "{}", "3"}},
      {"training.data_loading.time", {"2 ms", "2 parsecs"}},
      {"training.step_barrier", {"true", "false", "yes"}},
      {"data_parallel.framework", {"reference", "ddp", "fsdp2", "fsdp1", "deepspeed", "megatron"}},
      {"data_parallel.zero_stage", {"0", "1", "2", "3", "4"}},
      {"data_parallel.bucket_size", {"1 MiB", "25 MiB", "unit", "many"}},
      {"data_parallel.first_bucket_size", {"1 MiB", "null"}},
      {"data_parallel.prefetch", {"0", "2"}},
      {"data_parallel.reshard_after_forward", {"true", "false", "8", "3"}},
      {"data_parallel.shard_group_size", {"8", "16", "5"}},
      {"data_parallel.comm_hook", {"none", "powerSGD"}},
      {"data_parallel.powersgd.warm_start", {"true", "false"}},
      {"data_parallel.deepspeed.reduce_bucket_size", {"1000000", "5000000", "x", "null"}},
      {"data_parallel.deepspeed.overlap_comm", {"true", "false"}},
      {"data_parallel.deepspeed", {"{overlap_comm: true}", "null"}},
      {"parallelism.data", {"4", "8", "16", "7"}},
      {"parallelism.tensor", {"1", "2"}},
      {"software.driver", {"\"525.0\"", "\"550.0\"", "12"}},
      {"software.nccl", {"\"2.21\"", "\"2.27\""}},
      {"communication.nccl_algo", {"ring", "tree", "nonsense"}},
      {"model", {"models/gpt2.yaml", "models/llama2-7b.yaml", "models/gpt3.yaml"}},
      {"cluster.topology", {"topologies/dgx-h100.yaml", "topologies/dgx-a100.yaml"}},
      {"cluster.topology.devices", {"4", "8", "16"}},
      {"cluster.devices", {"plan", "4", "13", "16"}},
      {"cluster.network", {"analytic", "flow"}},
      {"training", {"{sequence_length: 128}", "null"}},
      {"data_parallel", {"{framework: ddp, zero_stage: 0}", "{framework: fsdp2, zero_stage: 3}"}},
      {"name", {"a", "b"}},
      {"trainig.precision", {"bf16"}},
      {"training.precison", {"bf16"}},
      {"training.micro_batch_size.deeper", {"1"}},
  };
  return keys;
}

void CheckSame(const Location& a, const Location& b) {
  RC_ASSERT(a.file == b.file);
  RC_ASSERT(a.line == b.line);
  RC_ASSERT(a.column == b.column);
}

void CheckSame(const Scenario& a, const Scenario& b) {
  // A row's title is not shown, and need not say what the row changes.
  RC_ASSERT(b.name.starts_with(a.name));
  RC_ASSERT(a.model == b.model);
  RC_ASSERT(a.cluster == b.cluster);
  RC_ASSERT(a.nodes_described == b.nodes_described);
  RC_ASSERT(a.calibration->name == b.calibration->name);
  RC_ASSERT(a.gpu == b.gpu);
  RC_ASSERT(a.algorithm == b.algorithm);
  RC_ASSERT(a.nccl_algo == b.nccl_algo);
  RC_ASSERT(a.nccl_proto == b.nccl_proto);
  RC_ASSERT(a.nccl_collnet == b.nccl_collnet);
  RC_ASSERT(a.network == b.network);
  RC_ASSERT(a.slow_links.size() == b.slow_links.size());
  RC_ASSERT(a.slow_devices.size() == b.slow_devices.size());
  RC_ASSERT(a.plan.training == b.plan.training);
  RC_ASSERT(a.plan.parallelism == b.plan.parallelism);
  RC_ASSERT(a.plan.data_parallel == b.plan.data_parallel);
  RC_ASSERT(a.plan.software == b.plan.software);
  RC_ASSERT(a.torch_assumed == b.torch_assumed);
  RC_ASSERT(a.nccl_assumed == b.nccl_assumed);
  // A row does not name idle settings; Load names them after all other warnings.
  RC_ASSERT(a.warnings.size() <= b.warnings.size());
  RC_ASSERT(std::equal(a.warnings.begin(), a.warnings.end(), b.warnings.begin()));
  CheckSame(a.communication_location, b.communication_location);
  CheckSame(a.cluster_location, b.cluster_location);
}

void CheckSame(const Diagnostics& a, const Diagnostics& b) {
  RC_ASSERT(Format(a) == Format(b));
  RC_ASSERT(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    RC_ASSERT(a[i].code == b[i].code);
    CheckSame(a[i].location, b[i].location);
  }
}

// Returns whether the row is a legal scenario.
bool CheckRow(const std::string& file, const std::vector<std::string>& fixed,
              const std::vector<std::string>& row, Variants& variants, InputCache& cache) {
  std::vector<std::string> all = fixed;
  all.insert(all.end(), row.begin(), row.end());
  const auto expected = Load(file, all, cache);
  const auto got = variants.Load(row);
  RC_ASSERT(got.has_value() == expected.has_value());
  if (!got) {
    CheckSame(got.error(), expected.error());
    return false;
  }
  CheckSame(**got, *expected);
  return true;
}

std::string Option(const Key& key) {
  return std::string(key.name) + "=" + *rc::gen::elementOf(key.values);
}

// Rows of a sweep: the same keys in each, with all their values.
TEST(VariantsTest, RowsOfASweepAreWhatLoadReads) {
  for (const char* text : {kText, kBare}) {
    const std::string file = FileWith("variants_sweep.yaml", text);
    InputCache cache;
    rc::detail::checkGTest([&] {
      std::vector<std::string> fixed;
      if (*rc::gen::arbitrary<bool>()) fixed.push_back(Option(*rc::gen::elementOf(Keys())));
      Variants variants(file, fixed, cache);
      std::vector<Key> keys;
      for (int i = *rc::gen::inRange(1, 6); i > 0; --i) {
        keys.push_back(*rc::gen::elementOf(Keys()));
      }
      if (text == kBare) {  // most rows should be right
        keys.push_back({"training.micro_batch_size", {"1", "2"}});
        keys.push_back({"training.gradient_accumulation", {"1", "2"}});
        keys.push_back({"data_parallel.zero_stage", {"0", "1"}});
      }
      for (int i = 0; i < 12; ++i) {
        std::vector<std::string> row;
        for (const Key& key : keys) row.push_back(Option(key));
        RC_CLASSIFY(CheckRow(file, fixed, row, variants, cache), "legal");
      }
    });
    std::filesystem::remove(file);
  }
}

// Any options, including invalid ones, through one Variants.
TEST(VariantsTest, AnyOptionsAreWhatLoadReads) {
  const std::string file = FileWith("variants_any.yaml", kText);
  InputCache cache;
  Variants variants(file, {}, cache);
  rc::detail::checkGTest([&] {
    std::vector<std::string> row;
    for (int i = *rc::gen::inRange(0, 5); i > 0; --i) {
      row.push_back(Option(*rc::gen::elementOf(Keys())));
    }
    if (*rc::gen::inRange(0, 8) == 0) {
      row.emplace_back(*rc::gen::elementOf(std::vector<const char*>{
          "", "=", "training", "=1", "training.=1", "training.precision=", "training.precision=[",
          ".x=1", "training.micro_batch_size= 2", "training.micro_batch_size=!2",
          "training.micro_batch_size=&a 2", "training.micro_batch_size =2"}));
    }
    CheckRow(file, {}, row, variants, cache);
  });
  std::filesystem::remove(file);
}

// As `plan` states its plans: a whole section, then its keys, some of them twice.
TEST(VariantsTest, KeysOfASectionThatIsSetAnew) {
  const std::string file = FileWith("variants_section.yaml", kText);
  InputCache cache;
  Variants variants(file, {}, cache);
  rc::detail::checkGTest([&] {
    const auto any = [](std::vector<const char*> values) {
      return std::string(*rc::gen::elementOf(values));
    };
    const std::vector<std::string> row = {
        "cluster.nodes=" + any({"1", "2", "4"}),
        "data_parallel=" + any({"{framework: ddp, zero_stage: 0}",
                                "{framework: ddp, zero_stage: 0, first_bucket_size: 2 MiB}",
                                "{framework: reference, zero_stage: 1}"}),
        "data_parallel.bucket_size=" + any({"1 MiB", "25 MiB", "none"}),
        "training.micro_batch_size=" + any({"1", "2", "0"}),
        "data_parallel.bucket_size=" + any({"2 MiB", "50 MiB"}),
        "training.micro_batch_size=" + any({"4", "8"})};
    CheckRow(file, {}, row, variants, cache);
  });
  std::filesystem::remove(file);
}

// After an illegal row, or one with an illegal cluster, the next is read as if it were the first.
TEST(VariantsTest, AMistakeLeavesNothingBehind) {
  const std::string file = FileWith("variants_mistake.yaml", kText);
  InputCache cache;
  Variants variants(file, {}, cache);
  const std::vector<std::vector<std::string>> rows = {
      {"cluster.nodes=2", "training.gradient_clipping=1.0"},
      {"cluster.nodes=500", "training.gradient_clipping=none"},
      {"cluster.nodes=100000", "training.gradient_clipping=none"},
      {"cluster.nodes=100000", "training.gradient_clipping=1.0"},
      {"cluster.nodes=500", "training.gradient_clipping=none"},
      {"cluster.nodes=100000", "training.gradient_clipping=none"},
      {"cluster.nodes=500", "training.gradient_clipping=1.0"},
      {"cluster.nodes=2", "training.gradient_clipping=none"},
      {"cluster.nodes=3", "training.gradient_clipping=2"}};
  for (const auto& row : rows) {
    const auto got = variants.Load(row);
    const auto expected = Load(file, row, cache);
    ASSERT_EQ(got.has_value(), expected.has_value()) << row[0];
    if (!got) continue;
    EXPECT_EQ((*got)->cluster, expected->cluster) << row[0];
    EXPECT_EQ((*got)->plan.training, expected->plan.training) << row[1];
  }
  std::filesystem::remove(file);
}

// A tensor-parallelism switch has no effect without tensor parallelism.
TEST(VariantsTest, SaysWhichValuesHadNoEffect) {
  const std::string file = FileWith("variants_effect.yaml", kText);
  InputCache cache;
  Variants variants(file, {"data_parallel.framework=megatron"}, cache);
  struct Row {
    std::vector<std::string> options;
    bool same;
  };
  const auto row = [](const char* tensor, const char* sequence, const char* micro_batch,
                      const char* nodes) {
    return std::vector<std::string>{fmt::format("parallelism.tensor={}", tensor),
                                    fmt::format("training.micro_batch_size={}", micro_batch),
                                    fmt::format("cluster.nodes={}", nodes),
                                    fmt::format("parallelism.sequence_parallel={}", sequence)};
  };
  std::vector<std::string> other_driver = row("1", "true", "2", "1");
  other_driver.emplace_back("software.driver=\"550.0\"");
  for (const Row& own : std::vector<Row>{{row("1", "true", "1", "2"), false},
                                         {row("1", "false", "1", "2"), true},
                                         {row("1", "true", "2", "2"), false},
                                         {row("1", "false", "2", "1"), false},
                                         {row("1", "true", "2", "1"), true},
                                         {other_driver, false},
                                         {row("2", "true", "1", "1"), false},
                                         {row("2", "false", "1", "1"), false},
                                         {row("3", "false", "1", "1"), false},
                                         {row("3", "true", "1", "1"), false}}) {
    (void)variants.Load(own.options);
    EXPECT_EQ(variants.same_as_before(), own.same)
        << fmt::format("{}", fmt::join(own.options, " "));
  }
  std::filesystem::remove(file);
}

TEST(VariantsTest, AFileThatIsNotThere) {
  InputCache cache;
  Variants variants("nowhere.yaml", {}, cache);
  const auto got = variants.Load({"cluster.nodes=2"});
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(Format(got.error()), Format(Load("nowhere.yaml", {}, cache).error()));
}

}  // namespace
}  // namespace stepcast::scenario
