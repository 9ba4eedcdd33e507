// Invariants of attention's cost on every GPU type with a profile of fused attention, for random
// heads, lengths and numbers of sequences.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <string>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/cost/kernel_price.h"
#include "src/model/model.h"
#include "src/scenario/load.h"

namespace stepcast {
namespace {

struct Shape {
  std::int64_t sequences = 1, length = 1, heads = 1, head_size = 128;
};

scenario::Scenario On(const std::string& gpu, const Shape& shape) {
  const std::string text = fmt::format(
      R"(
stepcast: 1
model: {{kind: transformer, family: llama, num_hidden_layers: 1, hidden_size: {0},
         num_attention_heads: {1}, num_key_value_heads: {1}, intermediate_size: 256, vocab_size: 256}}
cluster:
  topology: {{kind: flat, devices: 1, gpu: {2}, link: {{latency: 5 us, bandwidth: 25 GB/s}}}}
training: {{sequence_length: 16, micro_batch_size: 1, optimizer: adamw, precision: {3},
            gradient_accumulation: 1}}
data_parallel: {{framework: ddp, zero_stage: 0}}
)",
      shape.heads * shape.head_size, shape.heads, gpu, gpu == "v100-sxm2-32gb" ? "fp16" : "bf16");
  scenario::InputCache cache;
  auto loaded = scenario::LoadText(text, "s.yaml", {}, cache);
  RC_ASSERT(loaded.has_value());
  return *std::move(loaded);
}

struct BlockTime {
  Time forward, backward;
};

// The kernels of a block in sequence.
BlockTime TimeOf(const scenario::Scenario& scenario, const Shape& shape,
                 model::Attention attention) {
  const cost::KernelSetting setting = {.gpu = *scenario.gpu,
                                       .costs = *scenario.calibration->kernels};
  const auto time = [&](const auto& operations) {
    Time sum;
    for (const auto& operation : operations) {
      if (operation.kernel.kind == KernelKind::kGiven) continue;
      const auto demand = cost::PriceKernel(operation.kernel, setting);
      RC_ASSERT(demand.has_value());
      sum = sum + demand->latency + demand->work;
    }
    return sum;
  };
  constexpr std::size_t kBlock = 1;
  const model::LayerWork block =
      model::BuildWork(*scenario.model, {.micro_batch_size = shape.sequences,
                                         .sequence_length = shape.length,
                                         .compute = scenario.plan.training.precision,
                                         .attention = attention})[kBlock];
  return {time(block.forward), time(block.backward)};
}

class AttentionTime : public testing::TestWithParam<const char*> {};

std::int64_t AnyPower(int least, int most) {
  return std::int64_t{1} << *rc::gen::inRange(least, most + 1);
}

Shape AnyShape() {
  Shape shape{.length = AnyPower(4, 14),
              .heads = *rc::gen::inRange<std::int64_t>(1, 65),
              .head_size = *rc::gen::element<std::int64_t>(64, 128)};
  shape.sequences = *rc::gen::inRange<std::int64_t>(1, 2 + 32768 / shape.length);
  return shape;
}

// Separate kernels move the scores, which grow with the length of sequences, and launch several
// times. A fused kernel has no comparable cost except one launch.
TEST_P(AttentionTime, FusedIsNotSlowerThanSeparateKernelsByMoreThanALaunch) {
  rc::check([&] {
    const Shape shape = AnyShape();
    const scenario::Scenario scenario = On(GetParam(), shape);
    const calibration::KernelCosts& costs = *scenario.calibration->kernels;
    const Time overhead = costs.start_latency + costs.launch;
    const BlockTime separate = TimeOf(scenario, shape, model::Attention::kMath);
    for (const model::Attention attention : {model::Attention::kFlash, model::Attention::kCudnn}) {
      const BlockTime fused = TimeOf(scenario, shape, attention);
      const auto say = [&](const char* pass, Time one, Time other) {
        return fmt::format("{} {}: {} us fused, {} us separate: {} x {} tokens, {} heads of {}",
                           pass, model::Name(attention), one.seconds() * 1e6, other.seconds() * 1e6,
                           shape.sequences, shape.length, shape.heads, shape.head_size);
      };
      if (fused.forward > separate.forward + overhead) {
        RC_FAIL(say("forward", fused.forward, separate.forward));
      }
      if (fused.backward > separate.backward + overhead) {
        RC_FAIL(say("backward", fused.backward, separate.backward));
      }
    }
  });
}

// Longer sequences, equally many, take longer; more sequences take no less.
TEST_P(AttentionTime, GrowsWithTheSequences) {
  rc::check([&] {
    const Shape shape = AnyShape();
    Shape longer = shape, more = shape;
    longer.length += *rc::gen::inRange<std::int64_t>(1, shape.length + 1);
    more.sequences += 1;
    const scenario::Scenario scenario = On(GetParam(), shape);
    for (const model::Attention attention : {model::Attention::kFlash, model::Attention::kCudnn}) {
      const BlockTime at = TimeOf(scenario, shape, attention);
      // A block's products may fill tiles better with a longer sequence.
      const auto core = [&](const Shape& other) {
        for (const model::Operation& operation :
             model::BuildWork(*scenario.model, {.micro_batch_size = other.sequences,
                                               .sequence_length = other.length,
                                               .compute = scenario.plan.training.precision,
                                               .attention = attention})[1]
                 .forward) {
          if (operation.kernel.kind != KernelKind::kAttention) continue;
          const auto demand = cost::PriceKernel(
              operation.kernel, {.gpu = *scenario.gpu, .costs = *scenario.calibration->kernels});
          RC_ASSERT(demand.has_value());
          return demand->latency + demand->work;
        }
        RC_FAIL("no fused attention");
        return Time();
      };
      RC_ASSERT(core(shape) < core(longer));
      RC_ASSERT(core(shape) <= core(more));
      RC_ASSERT(core(shape) < at.forward);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Shipped, AttentionTime,
                         testing::Values("a100-pcie-80gb", "a100-sxm-40gb", "a100-sxm-80gb", "b200",
                                         "b300", "gb200", "gb300", "h100-96gb", "h100-pcie",
                                         "h100-sxm", "h200", "h800-sxm", "l40s", "mi300x",
                                         "v100-sxm2-32gb"));

}  // namespace
}  // namespace stepcast
