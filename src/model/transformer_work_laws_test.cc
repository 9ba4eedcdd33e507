#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/model/example_families.h"
#include "src/model/example_work.h"
#include "src/model/transformer_tensors.h"
#include "src/model/transformer_work.h"

namespace stepcast::model {
namespace {

Architecture AnyOf(const std::string& family) {
  Architecture a = TypicalOf(family);
  a.layers = *rc::gen::inRange<std::int64_t>(1, 5);
  a.kv_heads = *rc::gen::inRange<std::int64_t>(1, 5);
  a.head_size = 2 * *rc::gen::inRange<std::int64_t>(1, 9);
  a.heads = a.kv_heads;
  if (family != "gpt2") a.heads *= *rc::gen::inRange<std::int64_t>(1, 4);
  a.hidden = a.heads * a.head_size;
  const bool whole_heads =
      family == "gpt2" || family == "mpt" || family == "gptj" || family == "falcon";
  if (!whole_heads) {
    a.hidden = *rc::gen::inRange<std::int64_t>(1, 65);
  }
  a.feed_forward = *rc::gen::inRange<std::int64_t>(1, 129);
  a.vocabulary = *rc::gen::inRange<std::int64_t>(1, 200);
  a.max_positions = 64;
  if (family == "mpt") {
    a.position = *rc::gen::element(Position::kLearned, Position::kAlibi);
    a.normalization = *rc::gen::element(Normalization::kLayerNorm, Normalization::kRmsNorm);
  }
  a.tie_embeddings = *rc::gen::arbitrary<bool>();
  a.head_bias = a.head_bias && !a.tie_embeddings;
  if (family == "deepseek") {
    a.kv_heads = a.heads;
    a.latent = {.kv_rank = *rc::gen::inRange<std::int64_t>(1, 33),
                .query_rank = *rc::gen::inRange<std::int64_t>(0, 33),
                .plain_head = *rc::gen::inRange<std::int64_t>(1, 17),
                .rotary_head = 2 * *rc::gen::inRange<std::int64_t>(1, 9),
                .value_head = *rc::gen::inRange<std::int64_t>(1, 17)};
    a.head_size = a.latent.plain_head + a.latent.rotary_head;
  } else if (family != "phi3") {
    a.attention_bias = *rc::gen::arbitrary<bool>();
    a.projection_bias = *rc::gen::arbitrary<bool>();
  }
  a.feed_forward_bias = family != "phi3" && *rc::gen::arbitrary<bool>();
  a.norm_bias = a.normalization == Normalization::kLayerNorm && *rc::gen::arbitrary<bool>();
  a.dropout = *rc::gen::arbitrary<bool>();
  a.attention_dropout = *rc::gen::arbitrary<bool>();
  a.attention_window = *rc::gen::inRange<std::int64_t>(0, 40);
  for (const ArchitectureFault& fault : Check(a)) RC_FAIL(fault.message);
  return a;
}

// From the families whose kept bytes have the closed form.
Architecture AnyArchitecture() {
  return AnyOf(*rc::gen::element("gpt2", "llama", "mistral", "qwen2", "mpt", "nemotron"));
}

Architecture AnyDenseArchitecture() {
  Architecture a =
      AnyOf(*rc::gen::element("gpt2", "llama", "mistral", "qwen2", "mpt", "nemotron", "qwen3",
                              "deepseek", "gemma2", "gemma3", "phi3", "olmo2", "gemma", "glm",
                              "glm4", "starcoder2", "gptj", "gpt_neox", "phi", "falcon", "cohere"));
  if (FamilyName(a) == "gpt2") {
    a.position = *rc::gen::element(Position::kLearned, Position::kRotary);
    a.activator = *rc::gen::element(Activator::kGelu, Activator::kSwiGlu);
  } else if (FamilyName(a) == "gpt_neox") {
    a.parallel_residual_norms = *rc::gen::element(0, 1, 2);
  }
  if (a.attention_window > 0) a.full_attention_every = *rc::gen::element(0, 2, 3);
  return a;
}

WorkOptions AnyOptions() {
  return {.micro_batch_size = *rc::gen::inRange<std::int64_t>(1, 4),
          .sequence_length = *rc::gen::inRange<std::int64_t>(1, 33),
          .compute = *rc::gen::element(DataType::kFp32, DataType::kBf16, DataType::kFp16,
                                       DataType::kFp8, DataType::kMxfp8, DataType::kNvfp4),
          .checkpointing = *rc::gen::element(Checkpointing::kNone, Checkpointing::kSelective,
                                             Checkpointing::kFull),
          .attention = *rc::gen::element(Attention::kFlash, Attention::kMath),
          .fp8_scaling = *rc::gen::element(Fp8Scaling::kDelayed, Fp8Scaling::kCurrent,
                                           Fp8Scaling::kTorchao, Fp8Scaling::kTorchaoRowwise)};
}

// Every tensor of a layer has its gradient complete after exactly one operator.
RC_GTEST_PROP(TransformerWorkLaws, EveryGradientOnce, ()) {
  const Architecture a = AnyDenseArchitecture();
  const auto works = TransformerWork(a, AnyOptions());
  for (const Layer& layer : LayOut(a).layers) {
    std::vector<int> ready;
    for (const Operation& op : works[WorkOf(layer)].backward) {
      ready.insert(ready.end(), op.gradients.begin(), op.gradients.end());
    }
    std::sort(ready.begin(), ready.end());
    std::vector<int> all(layer.tensors.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
    RC_ASSERT(ready == all);
  }
}

// Each kept tensor begins to live exactly once, and so does each recomputed one.
RC_GTEST_PROP(TransformerWorkLaws, EveryActivationIsCreatedOnce, ()) {
  const auto works = TransformerWork(AnyDenseArchitecture(), AnyOptions());
  for (const LayerWork& work : works) {
    const auto created = [](const std::vector<Operation>& operators, Lifetime lifetime) {
      std::vector<int> indices;
      for (const Operation& op : operators) {
        for (const ValueId value : op.begins) {
          if (value.lifetime == lifetime) indices.push_back(value.index);
        }
      }
      std::sort(indices.begin(), indices.end());
      return indices;
    };
    const auto all = [](std::size_t count) {
      std::vector<int> indices(count);
      for (std::size_t i = 0; i < count; ++i) indices[i] = static_cast<int>(i);
      return indices;
    };
    RC_ASSERT(created(work.forward, Lifetime::kSaved) == all(work.Of(Lifetime::kSaved).size()));
    RC_ASSERT(created(work.recompute, Lifetime::kRecomputed) ==
              all(work.Of(Lifetime::kRecomputed).size()));
  }
}

// transformer_work.h: the table's closed form.
RC_GTEST_PROP(TransformerWorkLaws, KeptBytesHaveAClosedForm, ()) {
  const Architecture a = AnyArchitecture();
  WorkOptions options = AnyOptions();
  options.checkpointing = Checkpointing::kNone;
  const std::int64_t e = options.compute == DataType::kFp32 ? 4 : 2;
  const std::int64_t tokens = options.micro_batch_size * options.sequence_length;
  const std::int64_t q = a.heads * a.head_size, k = a.kv_heads * a.head_size;
  const bool math = options.attention == Attention::kMath;

  std::int64_t elements = 4 * a.hidden + 2 * q;  // norms' inputs and outputs; query and output
  elements += math ? 2 * q : 2 * k;              // keys and values
  const bool gated = a.activator == Activator::kSwiGlu;
  elements += (gated ? 4 : 2) * a.feed_forward;
  std::int64_t bytes = e * elements;
  Bytes quantized;
  if (IsQuantized(options.compute) &&
      !(options.compute == DataType::kFp8 && options.fp8_scaling == Fp8Scaling::kTorchaoRowwise)) {
    // Inputs of products in one byte or less; the fused core keeps its output in two besides.
    bytes -= 2 * (2 * a.hidden + a.feed_forward + (math ? q : 0));
    for (const std::int64_t width : {a.hidden, q, a.hidden, a.feed_forward}) {
      quantized += BytesOf(tokens * width, options.compute);
    }
  }
  if (a.normalization == Normalization::kRmsNorm) bytes += 8;
  if (a.dropout) bytes += 2 * a.hidden;
  if (math) {
    bytes += a.heads * options.sequence_length * (e + (a.attention_dropout ? 1 + e : 0));
  } else {
    bytes += 4 * a.heads;
  }
  RC_ASSERT(Sum(BlockOf(a, options).Of(Lifetime::kSaved)) == tokens * bytes + quantized.count());
}

RC_GTEST_PROP(TransformerWorkLaws, BackwardIsTwiceForward, ()) {
  const auto works = TransformerWork(AnyDenseArchitecture(), AnyOptions());
  for (const LayerWork& work : works) {
    RC_ASSERT(ModelFlops(work.backward) == 2 * ModelFlops(work.forward));
    std::int64_t forward = 0, backward = 0;
    for (const auto& op : work.forward) {
      if (op.kernel.kind == KernelKind::kGemm) forward += op.kernel.flops;
    }
    for (const auto& op : work.backward) {
      if (op.kernel.kind == KernelKind::kGemm) backward += op.kernel.flops;
    }
    RC_ASSERT(backward == 2 * forward);
  }
}

// Every gradient's kernel writes at least the tensors of its bias, norm or weight.
RC_GTEST_PROP(TransformerWorkLaws, GradientKernelsWriteTheirTensors, ()) {
  const Architecture a = AnyDenseArchitecture();
  const WorkOptions options = AnyOptions();
  const auto works = TransformerWork(a, options);
  const std::int64_t e = options.compute == DataType::kFp32 ? 4 : 2;
  const TransformerLayout layout = LayOut(a);
  for (const Layer& layer : layout.layers) {
    for (const Operation& op : works[WorkOf(layer)].backward) {
      std::int64_t elements = 0;
      for (const int position : op.gradients) {
        elements += layout.tensors[layer.tensors[position]].elements;
      }
      RC_ASSERT(op.kernel.written.count() >= e * elements);
    }
  }
}

// The kernels of a module are adjacent and name all of its parameters and no others. Every
// parameter has a module that runs forward and, if it is trained, backward.
RC_GTEST_PROP(TransformerWorkLaws, KernelsNameTheirModulesParameters, ()) {
  const Architecture a = AnyDenseArchitecture();
  const auto works = TransformerWork(a, AnyOptions());
  const TransformerLayout layout = LayOut(a);
  for (const Layer& layer : layout.layers) {
    const auto module_of = [&](int position) {
      const std::string& name = layout.tensors[layer.tensors[position]].name;
      return name.substr(0, name.rfind('.'));
    };
    const auto check = [&](const auto& operators, bool all_run) {
      std::vector<std::string> modules;  // in the order in which they run
      for (const auto& op : operators) {
        if (op.parameters.empty()) continue;
        const std::string module = module_of(op.parameters.front());
        std::vector<int> expected;
        for (std::size_t p = 0; p < layer.tensors.size(); ++p) {
          if (module_of(static_cast<int>(p)) == module) expected.push_back(static_cast<int>(p));
        }
        auto named = op.parameters;
        std::sort(named.begin(), named.end());
        RC_ASSERT(named == expected);
        if (modules.empty() || modules.back() != module) modules.push_back(module);
      }
      auto once = modules;
      std::sort(once.begin(), once.end());
      RC_ASSERT(std::adjacent_find(once.begin(), once.end()) == once.end());
      for (std::size_t p = 0; all_run && p < layer.tensors.size(); ++p) {
        RC_ASSERT(std::binary_search(once.begin(), once.end(), module_of(static_cast<int>(p))));
      }
    };
    const LayerWork& work = works[WorkOf(layer)];
    check(work.forward, true);
    check(work.backward, true);
    check(work.recompute, false);
    for (const Operation& op : work.backward) {
      for (const int position : op.gradients) {
        RC_ASSERT(std::find(op.parameters.begin(), op.parameters.end(), position) !=
                  op.parameters.end());
      }
    }
  }
}

}  // namespace
}  // namespace stepcast::model
