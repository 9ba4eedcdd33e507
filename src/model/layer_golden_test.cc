// Golden data of some 500 layers, families times training methods: for each, a line of totals and a
// digest of the layer's dump (layer_dump.h). After a change that is meant to alter a layer:
//
//  bazel run //src/model:layer_golden_test -- --update
//
// To print the full dump of the layers whose line contains a word, for comparison before and after:
//
//  bazel run //src/model:layer_golden_test -- --print "mixtral-8x7b, tensor"
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "src/model/example_families.h"
#include "src/model/example_work.h"
#include "src/model/layer_dump.h"
#include "src/model/model.h"
#include "src/model/transformer_work.h"

namespace stepcast::model {
namespace {

bool update = false;
std::string_view printed;
constexpr const char* kGolden = "src/model/testdata/layers.txt";

struct Example {
  const char* name;
  Architecture architecture;
};

// One of each family, and more mixtures.
std::vector<Example> Families() {
  return {{"gpt2", Shipped("gpt2")},
          {"llama3.1-8b", Shipped("llama3.1-8b")},
          {"mistral-7b", Shipped("mistral-7b")},
          {"qwen2-7b", Shipped("qwen2.5-7b")},
          {"mpt-7b", Shipped("mpt-7b")},
          {"nemotron-15b", Shipped("nemotron4-15b")},
          {"mixtral-8x7b", Shipped("mixtral-8x7b")},
          {"qwen3-30b", Shipped("qwen3-30b-a3b")},
          {"deepseek-v3", Shipped("deepseek-v3")},
          {"deepseek-v2-lite", Shipped("deepseek-v2-lite")},
          {"gpt-oss-20b", Shipped("gpt-oss-20b")},
          {"gemma2-9b", Shipped("gemma2-9b")},
          {"gemma3-27b", Shipped("gemma3-27b")},
          {"phi4", Shipped("phi4")},
          {"olmo2-7b", Shipped("olmo2-7b")},
          {"glm4.5-air", Shipped("glm-4.5-air")},
          {"llama4-scout", Shipped("llama4-scout")},
          {"bert-large", Shipped("bert-large")}};
}

struct Way {
  const char* name;
  std::function<void(WorkOptions&)> set;
};

void Megatron(WorkOptions& o) {
  o.tensor = 2;
  o.sequence_parallel = o.regathers = true;
  o.main_gradients = DataType::kFp32;
  o.fuses_products = o.fuses_dropout_add = true;
  o.casts_weights = false;
  o.vocabulary_multiple = 128;
}

// Recomputation, backward in two parts and tensor parallelism, for every family.
const Way kOfFamilies[] = {
    {"plain", [](WorkOptions&) {}},
    {"selective", [](WorkOptions& o) { o.checkpointing = Checkpointing::kSelective; }},
    {"full, two blocks a checkpoint",
     [](WorkOptions& o) {
       o.checkpointing = Checkpointing::kFull;
       o.blocks_per_checkpoint = 2;
     }},
    {"selective_op, stops early",
     [](WorkOptions& o) {
       o.checkpointing = Checkpointing::kSelectiveOp;
       o.recompute_stops_early = true;
     }},
    {"split backward", [](WorkOptions& o) { o.splits_backward = true; }},
    {"tensor as Megatron", Megatron},
    {"tensor as Megatron, full",
     [](WorkOptions& o) {
       Megatron(o);
       o.checkpointing = Checkpointing::kFull;
     }},
};

void InContext(WorkOptions& o, ContextMethod method, std::int64_t heads, bool of_pytorch) {
  o.context = {.ranks = 4, .method = method, .heads = heads, .of_pytorch = of_pytorch};
}

// Kernels, types, tensor overlap and context, for Llama.
const Way kOfLlama[] = {
    {"tensor", [](WorkOptions& o) { o.tensor = 4; }},
    {"tensor as Megatron, split backward",
     [](WorkOptions& o) {
       Megatron(o);
       o.splits_backward = true;
     }},
    {"sequence parallel as PyTorch, half of the blocks recomputed",
     [](WorkOptions& o) {
       o.tensor = 4;
       o.sequence_parallel = o.divides_sequences = o.adds_up_parts = true;
       o.checkpointing = Checkpointing::kSelectiveOp;
       o.checkpointed_blocks = {.part = 1, .of = 2};
     }},
    {"user buffers",
     [](WorkOptions& o) {
       Megatron(o);
       o.tensor_overlap = TensorOverlap::kUserBuffers;
     }},
    {"user buffers, selective norms and feed-forward",
     [](WorkOptions& o) {
       Megatron(o);
       o.tensor_overlap = TensorOverlap::kUserBuffers;
       o.checkpointing = Checkpointing::kSelective;
       o.recomputed_modules = {.core_attn = true, .mlp = true, .layernorm = true};
     }},
    {"asynchronous",
     [](WorkOptions& o) {
       o.tensor = 4;
       o.sequence_parallel = o.adds_up_parts = o.compiled = true;
       o.tensor_overlap = TensorOverlap::kAsync;
     }},
    {"ring", [](WorkOptions& o) { InContext(o, ContextMethod::kRing, 1, false); }},
    {"ring of PyTorch", [](WorkOptions& o) { InContext(o, ContextMethod::kRing, 1, true); }},
    {"ring, full",
     [](WorkOptions& o) {
       InContext(o, ContextMethod::kRing, 1, false);
       o.checkpointing = Checkpointing::kFull;
     }},
    {"ring, split backward",
     [](WorkOptions& o) {
       InContext(o, ContextMethod::kRing, 1, false);
       o.splits_backward = true;
     }},
    {"gathered context", [](WorkOptions& o) { InContext(o, ContextMethod::kAllGather, 1, false); }},
    {"gathered context of PyTorch",
     [](WorkOptions& o) { InContext(o, ContextMethod::kAllGather, 1, true); }},
    {"heads exchanged", [](WorkOptions& o) { InContext(o, ContextMethod::kAllToAll, 4, false); }},
    {"hierarchical, selective",
     [](WorkOptions& o) {
       InContext(o, ContextMethod::kHierarchical, 2, false);
       o.checkpointing = Checkpointing::kSelective;
     }},
    {"hierarchical in tensor",
     [](WorkOptions& o) {
       Megatron(o);
       InContext(o, ContextMethod::kHierarchical, 2, false);
     }},
    {"scores in memory", [](WorkOptions& o) { o.attention = Attention::kMath; }},
    {"eager",
     [](WorkOptions& o) {
       o.attention = Attention::kMathFp32;
       o.norm = o.rotary = o.activation_function = Implementation::kHuggingFace;
       o.repeat_kv = true;
     }},
    {"autocast", [](WorkOptions& o) { o.autocast = true; }},
    {"compiled",
     [](WorkOptions& o) {
       o.compiled = o.donates_logits = o.sums_norm_weights_apart = true;
       o.norm = o.rotary = o.activation_function = Implementation::kCompiled;
       o.loss = Loss::kFused;
     }},
    {"documents",
     [](WorkOptions& o) {
       InContext(o, ContextMethod::kRing, 1, false);
       o.documents = {{512, 1}};
     }},
    {"fp8", [](WorkOptions& o) { o.compute = DataType::kFp8; }},
    {"fp8, current scales, tensor as Megatron",
     [](WorkOptions& o) {
       Megatron(o);
       o.compute = DataType::kFp8;
       o.fp8_scaling = Fp8Scaling::kCurrent;
       o.loss = Loss::kInPlace;
     }},
    {"fp8 of torchao, sequence parallel",
     [](WorkOptions& o) {
       o.tensor = 4;
       o.sequence_parallel = o.divides_sequences = o.adds_up_parts = true;
       o.compute = DataType::kFp8;
       o.fp8_scaling = Fp8Scaling::kTorchao;
     }},
    {"fp8 by rows",
     [](WorkOptions& o) {
       o.compute = DataType::kFp8;
       o.fp8_scaling = Fp8Scaling::kTorchaoRowwise;
     }},
    {"nvfp4, split backward",
     [](WorkOptions& o) {
       o.compute = DataType::kNvfp4;
       o.splits_backward = true;
     }},
};

void Spread(WorkOptions& o, Dispatcher dispatcher) {
  o.experts.ranks = 8;
  o.experts.dispatcher = dispatcher;
  o.main_gradients = DataType::kFp32;
}

// Dispatchers, products and recomputation, for mixtures.
const Way kOfMixtures[] = {
    {"all-to-all", [](WorkOptions& o) { Spread(o, Dispatcher::kAllToAll); }},
    {"all-to-all, mixture recomputed",
     [](WorkOptions& o) {
       Spread(o, Dispatcher::kAllToAll);
       o.checkpointing = Checkpointing::kSelective;
       o.recomputed_modules = {.core_attn = false, .moe = true};
     }},
    {"all-to-all, activation and what leads up recomputed",
     [](WorkOptions& o) {
       Spread(o, Dispatcher::kAllToAll);
       o.checkpointing = Checkpointing::kSelective;
       o.recomputed_modules = {.layernorm = true, .moe_act = true, .mla_up_proj = true};
     }},
    {"all-to-all, full",
     [](WorkOptions& o) {
       Spread(o, Dispatcher::kAllToAll);
       o.checkpointing = Checkpointing::kFull;
     }},
    {"all-to-all, split backward, products on streams",
     [](WorkOptions& o) {
       Spread(o, Dispatcher::kAllToAll);
       o.experts.products = ExpertProducts::kStreams;
       o.splits_backward = true;
     }},
    {"all-to-all in tensor, parts of experts",
     [](WorkOptions& o) {
       Spread(o, Dispatcher::kAllToAll);
       Megatron(o);
       o.experts.ranks = 4;
       o.experts.tensor = 2;
       o.experts.load = 1.5;
     }},
    {"all-to-all of torchtitan",
     [](WorkOptions& o) {
       o.experts = {
           .ranks = 8, .implementation = ExpertImplementation::kTorchtitan, .fused_router = false};
       o.experts.fused_permutation = false;
       o.experts.router_type = DataType::kFp32;
     }},
    {"all-gather, looped",
     [](WorkOptions& o) {
       Spread(o, Dispatcher::kAllGather);
       o.experts.products = ExpertProducts::kLooped;
     }},
    {"deepep, two nodes",
     [](WorkOptions& o) {
       Spread(o, Dispatcher::kDeepEp);
       o.experts.near = 4;
     }},
    {"hybridep, fixed rows, split backward",
     [](WorkOptions& o) {
       Spread(o, Dispatcher::kHybridEp);
       o.experts.near = 4;
       o.experts.fixed_rows = o.splits_backward = true;
     }},
    {"not spread, fp8",
     [](WorkOptions& o) {
       o.compute = DataType::kFp8;
       o.experts.products = ExpertProducts::kStreams;
     }},
};

const Way kOfAdapters[] = {
    {"adapters", [](WorkOptions&) {}},
    {"adapters, selective",
     [](WorkOptions& o) {
       o.checkpointing = Checkpointing::kSelective;
       o.recomputed_modules = {.core_attn = true, .mlp = true};
     }},
    {"adapters, full", [](WorkOptions& o) { o.checkpointing = Checkpointing::kFull; }},
    {"adapters, tensor as Megatron", Megatron},
    {"adapters, split backward", [](WorkOptions& o) { o.splits_backward = true; }},
};

std::uint64_t DigestOf(std::string_view text) {
  std::uint64_t digest = 14695981039346656037U;  // FNV-1a
  for (const char letter : text) {
    digest = (digest ^ static_cast<unsigned char>(letter)) * 1099511628211U;
  }
  return digest;
}

std::string LineOf(const std::string& name, const LayerWork& work, const std::string& dump) {
  return fmt::format(
      "{}: saved {} recomputed {} communicated {} deferred {} B, operations {} {} {} {} {}, "
      "{:016x}\n",
      name, Sum(work.Of(Lifetime::kSaved)), Sum(work.Of(Lifetime::kRecomputed)),
      Sum(work.Of(Lifetime::kCommunicated)), Sum(work.Of(Lifetime::kDeferred)), work.forward.size(),
      work.recompute.size(), work.backward.size(), work.backward_input.operations.size(),
      work.backward_weight.operations.size(), DigestOf(dump));
}

class Layers {
 public:
  void Add(const Example& example, const Way& way) {
    WorkOptions options = Options(2, 2048);
    options.attention = Attention::kFlash3;
    if (example.architecture.max_positions > 0) {
      options.sequence_length = example.architecture.max_positions;
    }
    way.set(options);
    const std::vector<LayerWork> works = TransformerWork(example.architecture, options);
    for (std::size_t i = 0; i < works.size(); ++i) {
      Add(fmt::format("{}, {}, layer {}", example.name, way.name, i), works[i]);
    }
  }
  void Add(const std::string& name, const LayerWork& work) {
    const std::string dump = Dump(work);
    const std::string line = LineOf(name, work, dump);
    text_ += line;
    if (!printed.empty() && line.find(printed) != std::string::npos) {
      fmt::print("{}{}\n", line, dump);
    }
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string Text() {
  Layers layers;
  for (const Example& example : Families()) {
    for (const Way& way : kOfFamilies) layers.Add(example, way);
  }
  for (const Way& way : kOfLlama) layers.Add({"llama3.1-8b", Shipped("llama3.1-8b")}, way);
  for (const auto& example : {Example{"mixtral-8x7b", Shipped("mixtral-8x7b")},
                              Example{"deepseek-v3", Shipped("deepseek-v3")}}) {
    for (const Way& way : kOfMixtures) layers.Add(example, way);
  }
  Example further{"deepseek-v3 with a further token", Shipped("deepseek-v3")};
  further.architecture.further_tokens = 1;
  layers.Add(further, kOfMixtures[0]);
  layers.Add(further, kOfFamilies[6]);
  Example adapted{"llama3.1-8b", Shipped("llama3.1-8b")};
  adapted.architecture.lora = {
      .rank = 16, .targets = {.linear_qkv = true, .projection = true}, .dropout = 0.1};
  for (const Way& way : kOfAdapters) layers.Add(adapted, way);
  ListedLayer listed{.name = "listed",
                     .parameters = {1000, 10},
                     .forward = Milliseconds(1),
                     .backward = Milliseconds(2),
                     .activation = Bytes(5000),
                     .output = Bytes(400)};
  listed.forward_communication = {{.collective = CollectiveKind::kAllReduce, .bytes = Bytes(4096)}};
  listed.backward_communication = {
      {.collective = CollectiveKind::kAllGather, .bytes = Bytes(8192)}};
  const LayerList list{.layers = {listed}, .optimizer_step = Time()};
  for (const bool splits : {false, true}) {
    WorkOptions options = Options(1, 1);
    options.tensor = 2;
    options.splits_backward = splits;
    layers.Add(splits ? "listed, split backward" : "listed",
               BuildWork(Build("list", list), options).front());
  }
  return layers.text();
}

TEST(LayerGolden, LayersAreWhatTheyWere) {
  const std::string text = Text();
  const char* const workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  ASSERT_TRUE(!update || workspace != nullptr) << "--update needs bazel run";
  if (update) {
    std::ofstream(fmt::format("{}/{}", workspace, kGolden), std::ios::binary) << text;
    return;
  }
  std::ifstream in(kGolden, std::ios::binary);
  const std::string golden{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  ASSERT_FALSE(golden.empty());
  std::size_t at = 0;
  int different = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin) + 1;
    const std::string line = text.substr(begin, end - begin);
    const std::size_t golden_end = golden.find('\n', at) + 1;
    const std::string expected = golden.substr(at, golden_end == 0 ? 0 : golden_end - at);
    if (line != expected && ++different <= 5) {
      EXPECT_EQ(line, expected);
    }
    begin = end;
    at = golden_end == 0 ? golden.size() : golden_end;
  }
  EXPECT_EQ(different, 0) << "bazel run //src/model:layer_golden_test -- --print NAME";
  EXPECT_EQ(at, golden.size());
}

}  // namespace
}  // namespace stepcast::model

int main(int count, char** words) {
  testing::InitGoogleTest(&count, words);
  const std::string_view option = count > 1 ? words[1] : "";
  stepcast::model::update = option == "--update";
  if (option == "--print" && count > 2) stepcast::model::printed = words[2];
  return RUN_ALL_TESTS();
}
