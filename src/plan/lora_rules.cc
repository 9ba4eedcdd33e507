// Rules about adapters and frozen parameters.
#include <cstdint>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "src/plan/legality_rules.h"

namespace stepcast::plan {
namespace {

class LoraRules : public Rules {
 public:
  using Rules::Rules;

  void CheckAll() {
    CheckFrozenType();
    if (!request_.lora || !request_.framework) return;
    CheckDivided();
    CheckSharded();
  }

 private:
  void CheckFrozenType() {
    if (!request_.frozen_dtype) return;
    const DataType type = *request_.frozen_dtype;
    const auto refuse = [&](std::string rule, const char* hint) {
      Add("training.frozen_dtype", "plan.frozen-dtype",
          fmt::format("{}: frozen_dtype is {}", rule, Name(type)), hint);
    };
    if (!request_.lora) {
      refuse("only lora freezes parameters, but lora is not set",
             "omit frozen_dtype, or write lora: {rank: 16, ...}");
      return;
    }
    if (type != DataType::kFp8) return;
    if (request_.precision && *request_.precision != DataType::kFp8) {
      refuse(fmt::format("8-bit weights need 8-bit matrix multiplications, but precision is {}",
                         Name(*request_.precision)),
             "write precision: fp8, or frozen_dtype: bf16");
    }
    if (request_.framework && StyleOf(*request_.framework).shards_frozen) {
      refuse(fmt::format("{} gathers frozen parameters in the computation's data type",
                         plan::Name(*request_.framework)),
             "write frozen_dtype: bf16, or omit frozen_dtype");
    }
  }

  void CheckDivided() {
    const std::int64_t tensor = request_.tensor.value_or(1);
    if (tensor == 1) return;
    if (!StyleOf(*request_.framework).divides_adapters) {
      Add("parallelism.tensor", "plan.lora",
          fmt::format("with tensor parallelism, adapters are modelled only as in Megatron-LM: "
                      "framework is {} and tensor is {}",
                      plan::Name(*request_.framework), tensor),
          "write framework: megatron or reference, or write tensor: 1");
    }
    const model::AdaptedLayers& targets = request_.lora->targets;
    const bool parts = targets.query || targets.key || targets.value;
    for (const auto& [name, extent, columns] : facts_.divided) {
      if (!parts || name != "num_key_value_heads" || extent >= tensor) continue;
      Add("training.lora.targets", "plan.lora",
          fmt::format("queries, keys and values need one common adapter if tensor exceeds "
                      "num_key_value_heads: num_key_value_heads is {} and tensor is {}",
                      extent, tensor),
          "write targets: linear_qkv");
    }
    if (request_.lora->rank % tensor == 0) return;
    Add("training.lora.rank", "plan.lora",
        fmt::format("the rank of adapters must be a multiple of parallelism.tensor: tensor is {} "
                    "and rank is {}",
                    tensor, request_.lora->rank),
        fmt::format("set rank to a multiple of {}", tensor));
  }

  void CheckSharded() {
    const bool shards =
        request_.zero_stage.value_or(0) == 3 && !StyleOf(*request_.framework).shards_frozen;
    if (shards) {
      Add("data_parallel.zero_stage", "plan.lora",
          fmt::format("{} with lora is modelled only if each rank has all frozen parameters, but "
                      "zero_stage is 3",
                      plan::Name(*request_.framework)),
          "write zero_stage: 0, 1 or 2, or write framework: fsdp1 or fsdp2");
    }
    if (request_.cpu_offload.value_or(false)) {
      Add("data_parallel.cpu_offload", "plan.lora",
          "cpu_offload is not modelled with frozen parameters",
          "write cpu_offload: false, or omit cpu_offload");
    }
  }
};

}  // namespace

void CheckLora(const Request& request, const Facts& facts, std::vector<Violation>& violations) {
  LoraRules(request, facts, violations).CheckAll();
}

}  // namespace stepcast::plan
