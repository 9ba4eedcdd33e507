#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/model/layer_operators.h"
#include "src/model/loss_chunk.h"
#include "src/model/operator_name.h"

// The head's product and its cross entropy together, without all logits in memory.
namespace stepcast::model {

using Value = LayerTape::Value;

std::int64_t LossChunk(std::int64_t stated, std::int64_t tokens, std::int64_t words,
                       std::int64_t width) {
  if (stated > 0) return std::min(stated, tokens);
  const std::int64_t parts = (words + width - 1) / width;
  const auto tokens_of_part = static_cast<std::uint64_t>((tokens + parts - 1) / parts);
  return std::min(static_cast<std::int64_t>(std::bit_ceil(tokens_of_part)), tokens);
}

void LayerOperators::LossOfProduct(Operand x, const LossHead& head) {
  if (MakesLogits(options_.loss)) {
    STEPCAST_CHECK(options_.tensor == 1,
                   "a chunked loss is not modelled with a divided vocabulary");
    if (x.fp32) x = Cast(x, head.module);
    tape_->Keep(x.value);
    if (options_.loss == Loss::kCut) {
      CutLoss(x, head);
    } else {
      ChunkedLoss(x, head);
    }
    return;
  }
  Operand logits = Linear(std::move(x), head.module, head.words, head.parameters);
  if (head.capped) {
    logits = Scale(logits, "logit_cap.divide");
    logits = Tanh(logits, "logit_cap");
    logits = Scale(logits, "logit_cap.multiply");
  }
  CrossEntropy(logits, head.loss);
}

// Parts of the tokens run one after the other after the model's forward. Each part computes logits,
// the loss, their gradient in place, and the gradients of both factors of the product
// (liger_kernel/ops/fused_linear_cross_entropy.py; torchtitan/components/loss.py). A part's logits
// are freed when the next part's exist.
void LayerOperators::ChunkedLoss(const Operand& x, const LossHead& head) {
  const std::int64_t in = x.width, words = head.words;
  const std::int64_t chunk = LossChunk(options_.loss_chunk, x.tokens, words, in);
  const bool trained = head.parameters.weight >= 0;
  const std::vector<int> parameters = head.parameters.all();
  tape_->OnBackward([=, this] {
    const Value dx = tape_->MakeGradient(x.value);
    const Bytes of_chunk = BytesOfElements(chunk * words);
    const std::array<Value, 2> logits = {tape_->MakeScratch(of_chunk),
                                         tape_->MakeScratch(of_chunk)};
    const Bytes weight = BytesOfElements(words * in);
    std::size_t part = 0;
    for (std::int64_t done = 0; done < x.tokens; done += chunk, ++part) {
      const std::int64_t tokens = std::min(chunk, x.tokens - done);
      const bool last = done + tokens == x.tokens;
      const Value y = logits[part % 2];
      // The logits of the part before are freed after this product.
      LayerTape::Piece before = part > 0 ? logits[(part - 1) % 2] : y;
      tape_->RunBackward(Gemm(std::string(head.module), tokens, words, in), {x.value, before}, {y},
                         {}, parameters);
      const Bytes size = BytesOfElements(tokens * words);
      Kernel loss = Memory(std::string(head.loss),
                           (2 * kSoftmaxFlops + (head.capped ? 4 : 0)) * tokens * words,
                           2 * size + Bytes(tokens * (kIndexSize + kFp32Size)), size);
      loss.data_type = DataType::kFp32;
      tape_->RunBackward(std::move(loss), {y}, {y});
      tape_->RunBackward(
          Gemm(Joined(head.module, ".dgrad"), tokens, in, words, ProductLayout::kInputGradient),
          {y}, {dx}, {}, parameters);
      if (trained) {
        Kernel product =
            Gemm(Joined(head.module, ".wgrad"), words, in, tokens, ProductLayout::kWeightGradient);
        if (options_.main_gradients) {
          const Bytes sums(words * in * SizeOf(*options_.main_gradients));
          product.read += sums;
          product.written = sums;
          product.adds_to_fp32 = *options_.main_gradients == DataType::kFp32;
        } else if (part > 0) {
          product.read += weight;
        }
        const bool complete = last && !head.parameters.gradient_later;
        tape_->RunBackward(std::move(product), {y, x.value}, {},
                           complete ? std::vector<int>{head.parameters.weight} : std::vector<int>(),
                           parameters);
      }
      if (head.parameters.bias < 0) continue;
      tape_->RunBackward(
          Eager(Access::kColumnSum, Memory(Joined(head.module, ".bias.grad"), tokens * words, size,
                                           BytesOfElements(words))),
          {y}, {}, last ? std::vector<int>{head.parameters.bias} : std::vector<int>(), parameters);
    }
    tape_->Deliver(x.value, dx);
  });
}

// The products access memory only for their other two matrices. Backward computes the logits again.
// Skipping blocks of gradients that round to zero (the paper, section 4.3) is not modeled.
void LayerOperators::CutLoss(const Operand& x, const LossHead& head) {
  const std::int64_t in = x.width, words = head.words;
  const Bytes statistics(x.tokens * kFp32Size);
  const Bytes logits = BytesOfElements(x.tokens * words);
  const std::vector<int> parameters = head.parameters.all();
  Kernel product = Gemm(std::string(head.module), x.tokens, words, in);
  product.read += Bytes(x.tokens * kIndexSize);
  product.written = statistics;
  const Value log_sum_exp = tape_->Make(Joined(head.loss, ".log-sum-exp"), statistics);
  tape_->Keep(log_sum_exp);
  tape_->Run(product, {x.value}, {log_sum_exp}, parameters);
  tape_->OnBackward([=, this] {
    Kernel again = product;
    again.name = Joined(head.module, ".again");
    again.model_flops = 0;
    again.written = Bytes();
    tape_->RunBackward(std::move(again), {x.value, log_sum_exp}, {}, {}, parameters);
    Kernel of_weight =
        Gemm(Joined(head.module, ".wgrad"), words, in, x.tokens, ProductLayout::kWeightGradient);
    of_weight.read -= logits;
    if (options_.main_gradients) {
      const Bytes sums(words * in * SizeOf(*options_.main_gradients));
      of_weight.read += sums;
      of_weight.written = sums;
    }
    if (head.parameters.weight >= 0) {
      tape_->RunBackward(std::move(of_weight), {x.value}, {},
                         head.parameters.gradient_later ? std::vector<int>()
                                                        : std::vector<int>{head.parameters.weight},
                         parameters);
    }
    if (head.parameters.bias >= 0) {
      tape_->RunBackward(Memory(Joined(head.module, ".bias.grad"), x.tokens * words, Bytes(),
                                BytesOfElements(words)),
                         {x.value}, {}, {head.parameters.bias}, parameters);
    }
    Kernel of_input =
        Gemm(Joined(head.module, ".dgrad"), x.tokens, in, words, ProductLayout::kInputGradient);
    of_input.read -= logits;
    const Value dx = tape_->MakeGradient(x.value);
    tape_->RunBackward(std::move(of_input), {}, {dx}, {}, parameters);
    tape_->Deliver(x.value, dx);
  });
}

}  // namespace stepcast::model
