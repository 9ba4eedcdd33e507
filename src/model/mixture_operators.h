#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/model/layer_operators.h"

// The operators of a mixture's layer: a router chooses experts for each token, the tokens' rows go
// to the ranks that have the experts, grouped products compute each expert on its rows, and the
// rows come back and are added up. Order, kernels and what is kept follow Megatron-Core
// (megatron/core/transformer/moe @ d98e8a64ddf3: moe_layer.py, router.py, token_dispatcher.py,
// experts.py) and, where WorkOptions::experts says so, torchtitan (torchtitan/models/common/moe @
// b5bcd76c6), transformers (transformers_mixture.cc) or DeepSpeed (deepspeed_mixture.cc).
//
// Sizes: n tokens of this rank, k experts a token, E experts, of which the rank has E / ranks; each
// expert's rows are those of a balanced router times ExpertParallel::load.
namespace stepcast::model {

class MixtureOperators {
 public:
  // The router's product, the experts' first product, gate beside up where they have a gate, and
  // their second one. `out` is the width of one whole expert.
  struct Modules {
    LinearModule router, gate_up, down;
  };

  MixtureOperators(LayerOperators& operators, const Experts& experts, const Modules& modules);

  // What runs on the lane beside (LayerTape::BeginLane) while rows are on their way: issued behind
  // the exchanges that bring rows to experts, and behind the one that brings them back.
  struct Beside {
    std::function<void()> dispatch, combine;
  };
  // What the experts make of `x`, for the same tokens. The router chooses by `token`, which is `x`
  // unless experts work on a narrower vector. Once.
  Operand Run(const Operand& token, const Operand& x, Beside beside = {});

 private:
  using Value = LayerTape::Value;

  // Values that lie in rows: `bytes` of them, each with a weight in FP32 beside it where the
  // activation multiplies by it.
  struct Rows {
    Value rows = -1;
    Value weights = -1;
    std::int64_t count = 0;
  };

  bool gated() const { return modules_.gate_up.out > experts_.feed_forward; }
  // Width of one expert.
  std::int64_t inner() const { return experts_.feed_forward; }
  bool divided() const { return options_.ranks * options_.tensor > 1; }
  parallel::AxisSet ranks_and_parts() const;
  std::int64_t local_experts() const { return experts_.count / options_.ranks; }
  // The part of a token's rows that experts have room for.
  double kept() const { return std::min(options_.load, 1.0); }
  // Rows that the rank's tokens are; of these, the rows that are not dropped, with the empty ones
  // that fill experts up; and rows that come to the ranks that have parts of its experts.
  std::int64_t rows_of_tokens() const { return tokens_ * experts_.per_token; }
  std::int64_t sent_rows() const;
  std::int64_t received_rows() const;
  // Of an exchange, in parts of one size: the larger of the two.
  std::int64_t exchanged_rows() const;
  double share_of_model() const;  // of the rows that experts compute
  Bytes RowBytes(std::int64_t rows) const;
  Bytes WeightBytes(std::int64_t rows) const;
  Kernel Small(std::string_view name, Bytes read, Bytes written) const;
  // The kernel, so many times: operators that are launched one by one.
  void Repeat(bool forward, std::int64_t times, const Kernel& kernel,
              const std::vector<LayerTape::Piece>& reads,
              const std::vector<LayerTape::Piece>& writes);

  // mixture_router.cc.
  void Route(const Operand& x);
  Value Logits(const Operand& x);
  // mixture_dispatch.cc; mixture_tokens_once.cc: what sends tokens once.
  static constexpr std::int64_t kCountSize = 8;   // bytes
  static constexpr std::int64_t kMapKernels = 3;  // Transformer Engine's, of a permutation's map
  // The ranks tell one another how many rows come, and the host learns it.
  void Count();
  Rows Permute(const Operand& x);
  // Where each row goes when the rows of each expert are brought together, or taken apart again.
  Value SortMap(std::string_view name, std::int64_t rows);
  // The way of rows to the ranks that hold their experts (mixture_dispatch.cc).
  class RowDispatch;
  Rows Dispatch(const Rows& permuted);
  Rows DispatchToAll(const Operand& x);
  Rows DispatchOnce(const Operand& x);
  // mixture_products.cc.
  Operand RunExperts(const Rows& rows);
  Operand GroupedLinear(const Operand& x, std::string_view name, std::int64_t out,
                        const ModulePositions& parameters, bool completes);
  // One expert's product, in the type of the experts' products. The model's operations of it are
  // those of the mean rank, without tokens that are dropped and room that is empty.
  Kernel ExpertProduct(std::string name, std::int64_t m, std::int64_t n, std::int64_t k,
                       ProductLayout layout) const;
  // Experts' products are in 8 or 4 bits where Transformer Engine's layers are; torchao's filter
  // takes linear layers alone.
  bool quantizes() const { return operators_.quantizes() && options_.weighs_in_activation(); }
  // Rows of each expert, filled up to what the products' scales need.
  std::int64_t RowsOfExpert(std::int64_t rows) const;
  // Each expert's rows copied to where they begin at such a multiple, or back.
  Operand Padded(const Operand& x, std::string_view name);
  void RunGrouped(bool forward, const Kernel& one, const std::vector<LayerTape::Piece>& reads,
                  const std::vector<LayerTape::Piece>& writes, std::vector<int> gradients,
                  const std::vector<int>& parameters);
  Operand WeightedSwiGlu(const Operand& gate_up, const Rows& rows);
  // GPT-OSS, operation by operation: a bias for each row, by its expert; the gate's sigmoid unit,
  // clamped, times the other half and one.
  Operand BiasedRows(const Operand& y, const LinearModule& module);
  Operand ClampedGlu(const Operand& gate_up);

  // transformers_mixture.cc: ExpertImplementation::kTransformers.
  Operand RunTransformers(const Operand& x);
  Operand RunSorted(const Operand& x);
  Operand ProductOfExperts(const Operand& x, const LinearModule& module, std::int64_t out);
  Operand ActivateHalves(const Operand& both);
  Operand AddUpSorted(const Operand& made, Value order, const Operand& x);
  // What a loop over the experts keeps, the parts of all experts behind one another.
  struct LoopValues {
    Value places = -1, rows = -1, gate = -1, up = -1, activated = -1, product = -1, made = -1;
  };
  // The experts' output for so many rows.
  void MakeProducts(std::int64_t rows, LoopValues& loop);
  Operand RunLoop(const Operand& x);
  void RunLoopBackward(const Operand& x, const Operand& y, const LoopValues& loop);
  // One expert of a loop, on so many rows: three products and what lies between them.
  void RunLoopedExpert(const LoopValues& loop, std::int64_t rows);
  // Its backward. `made`: the gradient of what it makes; `rows`: that of its rows, to which
  // contributions of both products are added. `last`: of the experts.
  struct LoopGradients {
    Value left = -1, right = -1, gate = -1, inside = -1, made = -1, rows = -1, other = -1;
  };
  LoopGradients MakeLoopGradients(std::int64_t rows);
  void RunLoopedExpertBackward(const LoopValues& loop, const LoopGradients& gradients,
                               std::int64_t rows, bool last);
  // Of both products: to hooks the experts are one module.
  std::vector<int> ParametersOfExperts() const;

  // deepspeed_mixture.cc: ExpertImplementation::kDeepSpeed.
  Operand RunSlots(const Operand& token, const Operand& x);
  // What an expert takes of a rank's tokens, and all experts do.
  std::int64_t capacity() const;
  std::int64_t slots() const { return experts_.count * capacity(); }
  // What the gate makes: the weight of each token in each slot, FP32, and a mask of those that are
  // not 0, in 16 bits.
  struct SlotTables {
    Value weights = -1, mask = -1;
  };
  SlotTables ChooseSlots(Value logits);
  // A product with a table of tokens by slots, which is none of the model's.
  Kernel TableProduct(std::string_view name, std::int64_t m, std::int64_t n, std::int64_t k,
                      ProductLayout layout) const;
  Value FillSlots(const Operand& x, Value mask);
  Value ExchangeSlots(std::string_view name, Value rows);
  Value RunLoopOverSlots(Value rows);
  Operand EmptySlots(Value rows, Value weights);

  Operand Combine(const Operand& made, const Operand& x);
  Operand CombineFromAll(const Operand& made, const Operand& x);
  Operand CombineOnce(const Operand& made, const Operand& x);
  Operand AddUpRows(const std::vector<LayerTape::Piece>& returned, Value gradients_of,
                    const Operand& x);
  void UnweighRows(Value rows, Value in_fp32, Value weights);
  void RunBeside(const std::function<void()>& operators);

  // Of `from`, in as many parts as there are ranks, each to its rank; what comes lies behind the
  // rank's own part. `others` is made for it. `first`: where rows go, and with them the load.
  std::vector<LayerTape::Piece> Exchange(bool forward, std::string_view name, Value from,
                                         Bytes bytes, AllToAllLoads::First first);
  // The same among some of the ranks, on so many multiprocessors.
  struct Reach {
    parallel::AxisSet axes;
    std::int64_t ranks = 1;
    std::optional<int> multiprocessors{};
    std::optional<DataType> type{};  // of what is sent; none: of activations
    AllToAllLoads loads{};
  };
  std::vector<LayerTape::Piece> Exchange(bool forward, std::string_view name, Value from,
                                         Bytes bytes, const Reach& reach);
  // Tokens sent once: those that this rank sends to nodes, its own among them, and those that it
  // sends to ranks of its node. What other nodes send is handed on to the node's ranks while it
  // comes, so that both go on at once.
  std::int64_t tokens_to_nodes() const;
  // Of so many groups of experts, those that have some of a token's experts that are not dropped,
  // on average (GroupsOfToken).
  double GroupsReached(std::int64_t groups, std::int64_t limit) const;
  std::int64_t tokens_to_ranks() const;
  Reach nodes() const;
  Reach neighbours() const;
  std::optional<int> dispatch_multiprocessors() const;
  // Both exchanges of what a kernel lays out, and what has come, for the next kernel to read.
  // `dispatches`: rows go to experts, in 8 bits where ExpertParallel::dispatches_fp8 says so.
  std::vector<LayerTape::Piece> ExchangeOnce(bool forward, std::string_view name,
                                             const Kernel& lay_out,
                                             const std::vector<LayerTape::Piece>& reads,
                                             bool dispatches = false);
  // So many tokens' rows on their way to experts.
  Bytes DispatchedBytes(std::int64_t tokens) const;
  // A kernel that casts rows to 8 bits, where they are sent in those; what to send.
  Value CastForDispatch(bool forward, Value rows);
  // Rows of all parts of the experts, gathered; their sums, scattered.
  Value GatherParts(bool forward, std::string_view name, Value part, Bytes whole, DataType type);
  Value ScatterParts(bool forward, std::string_view name, Value whole, Bytes part, DataType type);

  LayerOperators& operators_;
  LayerTape& tape_;
  const WorkOptions& work_;
  const ExpertParallel& options_;
  const Experts& experts_;
  const Modules modules_;
  Beside beside_;
  std::int64_t tokens_ = 0;  // n
  std::int64_t width_ = 0;   // h
  Value probabilities_ = -1, map_ = -1, row_map_ = -1;
  Value counts_on_host_ = -1;
};

}  // namespace stepcast::model
