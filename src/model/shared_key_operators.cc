#include "src/model/shared_key_operators.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/model/operator_name.h"

namespace stepcast::model {
namespace {

constexpr std::int64_t kPoolFlops = 6;  // of an element: softmax and a weighted sum

}  // namespace

ModulePositions SharedKeyOperators::Whole(std::string_view module) const {
  ModulePositions positions = find_(module);
  positions.of_part = operators_.options_.sequence_parallel;
  return positions;
}

void SharedKeyOperators::Compress(const Operand& x, std::string_view product,
                                  std::string_view positions, std::string_view norm,
                                  std::int64_t width) {
  const SharedKeyValue& shared = a_.shared_key;
  const std::int64_t wide = shared.overlap * width;
  const Operand both = operators_.Linear(x, product, 2 * wide, Whole(product));
  const std::int64_t vectors = std::max<std::int64_t>(1, x.tokens / shared.compressed);
  const Operand pooled = operators_.Make(Joined(product, ".pool output"), width, vectors);
  const ModulePositions added = find_(positions);
  const Bytes in = operators_.Size(both), out = operators_.Size(pooled);
  const std::int64_t flops = kPoolFlops * LayerOperators::Elements(both);
  tape_.Keep(both.value);
  tape_.RunBothWays(operators_.Memory(Joined(product, ".pool"), flops, in, out),
                    {operators_.Memory(Joined(product, ".pool.dgrad"), 2 * flops, in + out, in)},
                    {both.value}, {pooled.value}, added.all());
  const Operand keys = operators_.Norm(pooled, norm, Normalization::kRmsNorm, find_(norm));
  tape_.Keep(keys.value);
  // The core's backward writes this gradient together with that of the window's keys. A split
  // backward needs an operation that writes the gradient, to keep it for the weights' part.
  tape_.OnBackward([=, this, name = Joined(norm, ".gradient")] {
    const Value gradient = tape_.MakeGradient(keys.value);
    if (operators_.options_.splits_backward) {
      tape_.RunBackward(operators_.Memory(name, 0, Bytes(), Bytes()), {}, {gradient});
    }
    tape_.Deliver(keys.value, gradient);
  });
}

void SharedKeyOperators::Choose(const Operand& x, const Operand& query_vector) {
  const Indexer& index = a_.indexer;
  Compress(x, names_.index_compress, names_.index_compress_positions, names_.index_compress_norm,
           index.head);
  const Operand query = operators_.Linear(query_vector, names_.index_query,
                                          index.heads * index.head, Whole(names_.index_query));
  const Operand weights =
      operators_.Linear(x, names_.index_weights, index.heads, Whole(names_.index_weights));
  AttentionShape of_vectors = Shape(operators_.DocumentLength());
  of_vectors.window = std::max<std::int64_t>(1, of_vectors.window - a_.attention_window);
  indexer_.emplace(operators_, a_, names_, find_)
      .ChooseAmong({query, weights}, a_.shared_key.compressed, of_vectors);
}

SharedKeyOperators::Vectors SharedKeyOperators::Make(const Operand& x) {
  const std::int64_t heads = a_.heads / operators_.options_.tensor;
  const Operand vector = operators_.Norm(
      operators_.Linear(x, names_.query_down, a_.shared_key.query_rank, Whole(names_.query_down)),
      names_.query_latent_norm, Normalization::kRmsNorm, find_(names_.query_latent_norm));
  Operand query = operators_.Linear(operators_.EnterColumns(vector, "q_b"), names_.query_up,
                                    heads * a_.head_size, find_(names_.query_up));
  query = operators_.Rotary(query, "self_attn.rotary_query", a_.head_size);
  Operand key = operators_.Norm(
      operators_.Linear(x, names_.shared_key, a_.head_size, Whole(names_.shared_key)),
      names_.shared_key_norm, Normalization::kRmsNorm, find_(names_.shared_key_norm));
  key = operators_.Rotary(operators_.AllTokens(key, names_.shared_key), "self_attn.rotary_key",
                          a_.head_size);
  if (a_.shared_key.compressed > 0) {
    Compress(x, names_.compress, names_.compress_positions, names_.compress_norm, a_.head_size);
    if (a_.indexer.exists()) Choose(x, vector);
  }
  return {query, key};
}

AttentionShape SharedKeyOperators::Shape(std::int64_t document_length) const {
  std::int64_t reads = a_.attention_window;
  if (const std::int64_t tokens = a_.shared_key.compressed; tokens > 0) {
    // A query sees the vectors before it: half of all on average.
    std::int64_t vectors = document_length / (2 * tokens);
    if (a_.indexer.chooses()) vectors = std::min(vectors, a_.indexer.top);
    reads += vectors;
  }
  return {.heads = a_.heads / operators_.options_.tensor,
          .kv_heads = 1,
          .head_size = a_.head_size,
          .value_size = a_.head_size,
          .window = reads,
          .chosen = true,
          .sinks = a_.sinks,
          .sink_positions = find_(names_.sinks)};
}

Operand SharedKeyOperators::Output(const Operand& y) {
  const std::int64_t groups = a_.shared_key.output_groups / operators_.options_.tensor;
  const std::int64_t in = y.width / groups, rank = a_.shared_key.output_rank;
  const Operand turned = operators_.Rotary(y, "self_attn.rotary_output", a_.head_size);
  const Operand z = operators_.Make(Joined(names_.output_down, " output"), groups * rank, y.tokens);
  const ModulePositions parameters = find_(names_.output_down);
  const auto product = [&](std::string_view suffix, std::int64_t m, std::int64_t n, std::int64_t k,
                           ProductLayout layout) {
    Kernel kernel = operators_.Gemm(Joined(names_.output_down, suffix), m, n, k, layout);
    kernel.batch = groups;
    kernel.flops *= groups;
    kernel.model_flops *= groups;
    kernel.read = groups * kernel.read;
    kernel.written = groups * kernel.written;
    return kernel;
  };
  tape_.Keep(turned.value);
  tape_.Run(product("", y.tokens, rank, in, ProductLayout::kForward), {turned.value}, {z.value},
            parameters.all());
  const Kernel input = product(".dgrad", y.tokens, in, rank, ProductLayout::kInputGradient);
  const Kernel weight = product(".wgrad", rank, in, y.tokens, ProductLayout::kWeightGradient);
  tape_.OnBackward([=, this] {
    const Value gradient = tape_.GradientOf(z.value);
    const Value dx = tape_.MakeGradient(turned.value);
    tape_.RunBackward(input, {gradient}, {dx}, {}, parameters.all());
    if (parameters.weight >= 0) {
      tape_.RunBackward(weight, {gradient}, {}, parameters.all(), parameters.all());
    }
    tape_.Deliver(turned.value, dx);
  });
  return z;
}

}  // namespace stepcast::model
