#include <string>
#include <string_view>
#include <utility>

#include "src/model/layer_operators.h"
#include "src/model/operator_name.h"
#include "src/model/operator_sizes.h"

// What a training loop prints beside the loss, computed from the logits of each micro-batch.
namespace stepcast::model {
namespace {

using Value = LayerTape::Value;

}  // namespace

// internlm/model/metrics.py, AccPerplex and LossWithTypeId, without gradients:
//
//   loss of each token                reads the logits twice, as the loss itself
//   torch.max, twice; argmax                 once each
//   logits - maximum                         once             writes them
//   exp in place                             once             writes them
//   sum                                      once
//
// 40 bytes a logit in FP32. Over a vocabulary that is divided among ranks they agree on each
// token's loss, maximum, hit, target's logit and sum.
void LayerOperators::Score(const Operand& logits, std::string_view module) {
  const std::int64_t elements = Elements(logits);
  const Bytes size = Size(logits);
  const Bytes rows(tokens_ * kFp32Size);
  const auto pass = [&](std::string_view suffix, std::int64_t flops, Bytes read, Bytes written) {
    Kernel kernel = Memory(Joined(module, suffix), flops * elements, read, written);
    kernel.data_type = DataType::kFp32;
    return kernel;
  };
  const auto agree = [&](std::string_view suffix, std::int64_t flops, Bytes read, Value from) {
    return AgreedRows(pass(suffix, flops, read, rows), from,
                      Joined(module, Joined(suffix, " output")), 1);
  };
  agree(".loss", kSoftmaxFlops, 2 * size, logits.value);
  agree(".max", 1, size, logits.value);
  tape_->Run(pass(".own_max", 1, size, rows), {logits.value}, {});
  agree(".argmax", 1, size, logits.value);
  const Value shifted = tape_->Make(Joined(module, " shifted logits"), size);
  tape_->Run(pass(".shift", 1, size, size), {logits.value}, {shifted});
  if (options_.tensor > 1) agree(".target", 0, rows, shifted);
  tape_->Run(pass(".exp", 1, size, size), {shifted}, {shifted});
  agree(".sum", 1, size, shifted);
}

}  // namespace stepcast::model
