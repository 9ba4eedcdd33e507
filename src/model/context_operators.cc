#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/base/collective_kind.h"
#include "src/model/layer_operators.h"
#include "src/model/operator_name.h"
#include "src/model/operator_sizes.h"
#include "src/parallel/axis.h"

// Attention over sequences whose tokens several ranks share out. Of n ranks' 2n chunks of a
// sequence rank i has chunks i and 2n - 1 - i, so that under a causal mask all have as much to do.
// What they do differs in shape: ring steps up to the i-th let all queries see half of another
// rank's keys, the later ones half of the queries all of them. The rank in the middle stands for
// all.
//
// Sources: transformer_engine/pytorch/attention/dot_product_attention/context_parallel.py;
// torch/distributed/tensor/experimental/_context_parallel/_attention.py.
namespace stepcast::model {
namespace {

using Value = LayerTape::Value;

}  // namespace

parallel::AxisSet LayerOperators::RingAxes() const {
  return options_.context.heads == 1 ? parallel::kContext
                                     : parallel::AxisSet(parallel::Axis::kContextOuter);
}

std::vector<LayerOperators::Block> LayerOperators::RingBlocks() const {
  const std::int64_t ranks = options_.context.parts();
  const std::int64_t s = DocumentLength() / ranks;
  std::vector<Block> blocks{OfEachDocument(s, s, s, s * s, true)};
  for (std::int64_t step = 1; step < ranks; ++step) {
    const bool half_keys = step <= ranks / 2;
    const std::int64_t keys = half_keys ? s / 2 : s;
    blocks.push_back(OfEachDocument(half_keys ? s : s / 2, keys, keys, s * s, false));
  }
  return blocks;
}

Operand LayerOperators::FlashOverContext(const Core& core, std::string_view module,
                                         const AttentionShape& shape) {
  STEPCAST_CHECK(shape.causal, "the tokens that ranks have are balanced under a causal mask");
  const ContextParallel& context = options_.context;
  if (context.heads == 1) return FlashOfParts(core, module, shape);
  // All-to-alls around the attention of a part of the heads.
  const auto ranks = static_cast<int>(context.heads);
  AttentionShape part = shape;
  part.heads /= ranks;
  part.kv_heads /= ranks;
  const std::int64_t own = Documents() * (DocumentLength() / context.ranks);
  const BlockSizes sizes = SizesOf(shape, {.rows = own, .key_rows = own});
  const Bytes queries = sizes.queries, keys = sizes.key, values = sizes.value;
  const Core divided{.query = tape_->Make(Joined(module, " query, all tokens"), queries),
                     .key = tape_->Make(Joined(module, " key, all tokens"), keys),
                     .value = tape_->Make(Joined(module, " value, all tokens"), values)};
  ExchangeHeads(true, Joined(module, ".to_heads"),
                {{core.query, divided.query, queries},
                 {core.key, divided.key, keys},
                 {core.value, divided.value, values}});
  tape_->OnBackward([=, this] {
    Pieces gradients;
    if (core.fused) {
      for (const Bytes bytes : {queries, keys, values}) {
        gradients.emplace_back(tape_->MakeScratch(bytes));
      }
    } else {
      for (const Value of : {core.query, core.key, core.value}) {
        gradients.emplace_back(tape_->MakeGradient(of));
      }
    }
    ExchangeHeads(false, Joined(module, ".to_tokens.dgrad"),
                  {{tape_->GradientOf(divided.query), gradients[0].value, queries},
                   {tape_->GradientOf(divided.key), gradients[1].value, keys},
                   {tape_->GradientOf(divided.value), gradients[2].value, values}});
    Deliver(core, module, gradients, queries + keys + values);
  });
  const Operand inside = context.parts() == 1 ? FlashOfDocuments(divided, module, part)
                                              : FlashOfParts(divided, module, part);
  const Operand y =
      Make(Joined(module, " output, all heads"), inside.width * ranks, inside.tokens / ranks);
  ExchangeHeads(true, Joined(module, ".to_tokens"), {{inside.value, y.value, sizes.output}});
  tape_->OnBackward([=, this] {
    const Value gradient = tape_->MakeGradient(inside.value);
    ExchangeHeads(false, Joined(module, ".to_heads.dgrad"),
                  {{tape_->GradientOf(y.value), gradient, sizes.output}});
    tape_->Deliver(inside.value, gradient);
  });
  return y;
}

void LayerOperators::ExchangeHeads(bool forward, const std::string& name,
                                   const std::vector<Exchanged>& values) {
  const auto ranks = static_cast<int>(options_.context.heads);
  const LayerTape::Collective all_to_all{
      .kind = CollectiveKind::kAllToAll,
      .axes = options_.context.parts() == 1 ? parallel::kContext
                                            : parallel::AxisSet(parallel::Axis::kContextInner),
      .type = element_};
  std::vector<std::pair<Value, Value>> pieces;  // and what has come
  for (const Exchanged& value : values) {
    const Bytes others(value.bytes.count() / ranks * (ranks - 1));
    const Value own = MakeIn(forward, name + " pieces", value.bytes);
    const Value received = MakeIn(forward, name + " received", others);
    RunIn(forward, Memory(name + ".split", 0, value.bytes, value.bytes), {value.from}, {own});
    CommunicateIn(forward, all_to_all, own, received);
    pieces.emplace_back(own, received);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const LayerTape::Piece own(pieces[i].first, PieceRange{.piece = ranks - 1, .pieces = ranks});
    RunIn(forward, Memory(name + ".order", 0, values[i].bytes, values[i].bytes),
          {own, pieces[i].second}, {values[i].to});
  }
}

Operand LayerOperators::FlashOfParts(const Core& core, std::string_view module,
                                     const AttentionShape& shape) {
  const bool at_once =
      options_.context.method == ContextMethod::kAllGather && !options_.context.of_pytorch;
  return at_once ? GatheredAttention(core, module, shape) : RingAttention(core, module, shape);
}

Operand LayerOperators::RingAttention(const Core& core, std::string_view module,
                                      const AttentionShape& shape) {
  const bool pytorch = options_.context.of_pytorch;
  const auto ranks = static_cast<int>(options_.context.parts());
  const std::vector<Block> blocks = RingBlocks();
  const BlockSizes own = SizesOf(shape, blocks.front());
  const bool gathers = options_.context.method == ContextMethod::kAllGather;
  const auto message = [axes = RingAxes()](DataType type) {
    return LayerTape::Collective{
        .kind = CollectiveKind::kSendRecv, .axes = axes, .type = type, .distance = 1};
  };
  // Keys and values of every step: those that are known, and the next ones.
  const auto pack = [=, this](bool forward) {
    const Value keys = MakeIn(forward, Joined(module, " keys and values"), own.keys);
    RunIn(forward, Memory(Joined(module, ".pack"), 0, own.keys, own.keys),
          core.fused ? Pieces{core.key} : Pieces{core.key, core.value}, {keys});
    return keys;
  };
  const auto gather = [=, this](bool forward, Pieces& keys) {
    const Value all = MakeIn(forward, Joined(module, " keys and values of all ranks"),
                             Bytes(own.keys.count() * ranks));
    CommunicateIn(forward, {CollectiveKind::kAllGather, RingAxes(), element_}, keys.front(), all);
    for (int i = 1; i < ranks; ++i) {
      keys.emplace_back(all, PieceRange{.piece = i, .pieces = ranks});
    }
  };
  const auto pass_on = [=, this](bool forward, Pieces& keys) {
    const Value next = MakeIn(forward, Joined(module, " keys and values received"), own.keys);
    CommunicateIn(forward, message(element_), keys.back(), next);
    keys.emplace_back(next);
  };

  Pieces keys{pack(true)};
  if (gathers) gather(true, keys);
  Pieces outputs, numbers;
  const Operand y =
      Make(Joined(module, " output"), shape.heads * shape.values(), blocks.front().rows);
  const auto step_name = [=](int step) { return Joined(module, ".step_") + std::to_string(step); };
  for (int step = 0; step < ranks; ++step) {
    if (!gathers && step + 1 < ranks) pass_on(true, keys);
    const BlockSizes sizes = SizesOf(shape, blocks[step]);
    outputs.emplace_back(tape_->Make(step_name(step) + " output", sizes.output));
    numbers.emplace_back(tape_->Make(step_name(step) + " log-sum-exp", sizes.row_numbers));
    tape_->Run(FlashKernel(step_name(step), shape, blocks[step]), {core.query, keys[step]},
               {outputs.back(), numbers.back()},
               step == 0 ? shape.sink_positions.all() : std::vector<int>());
    if (step > 0) {
      tape_->Run(Memory(step_name(step) + ".lse", 4 * sizes.row_numbers.count() / kFp32Size,
                        2 * sizes.row_numbers, sizes.row_numbers),
                 {numbers.back(), numbers.front()}, {numbers.front()});
    }
    if (pytorch) MergeInFp32(step_name(step), sizes, outputs, step + 1 == ranks, y);
  }
  for (int step = 0; step < ranks && !pytorch; ++step) {
    const BlockSizes sizes = SizesOf(shape, blocks[step]);
    tape_->Run(Memory(step_name(step) + ".correct", 2 * sizes.output_elements,
                      (step == 0 ? 1 : 2) * sizes.output + 2 * sizes.row_numbers, sizes.output),
               {outputs[step], numbers[step], numbers.front()}, {y.value});
  }
  tape_->Keep(core.query);
  if (pytorch) {
    tape_->Keep(core.key);
    tape_->Keep(core.value);
  } else {
    tape_->Keep(keys.back().value);  // where backward's ring begins
  }
  tape_->Keep(y.value);
  tape_->Keep(numbers.front().value);

  tape_->OnBackward([=, this] {
    const Value dy = tape_->GradientOf(y.value);
    // Gradients add up in 16 bits, or in FP32, in which PyTorch's go round, too.
    const DataType type = pytorch ? DataType::kFp32 : element_;
    const auto in_type = [=, this](Bytes bytes) {
      return Bytes(bytes.count() / element_size_ * SizeOf(type));
    };
    Pieces from{pytorch ? pack(false) : keys.back().value};
    if (gathers) gather(false, from);
    const Value d_queries = core.fused || pytorch ? tape_->MakeScratch(in_type(own.queries))
                                                  : tape_->MakeGradient(core.query);
    Value d_keys = tape_->MakeScratch(in_type(own.keys));
    for (int i = 0; i < ranks; ++i) {
      // Whose keys a rank has last in forward it begins with, but for PyTorch, whose ring begins as
      // the forward's.
      const int step = pytorch ? i : ranks - 1 - i;
      if (!gathers && i + 1 < ranks) pass_on(false, from);
      if (i > 0) {
        const Value received = tape_->MakeScratch(in_type(own.keys));
        tape_->CommunicateBackward(message(type), d_keys, received);
        d_keys = received;
      }
      const BlockSizes sizes = SizesOf(shape, blocks[step]);
      const std::string name = step_name(step) + ".dgrad";
      const Value dq = tape_->MakeScratch(sizes.queries), dk = tape_->MakeScratch(sizes.keys);
      RunFlashGradient(step_name(step), shape, blocks[step], {dy, from[i]}, [&] {
        return Pieces{dq, dk};
      });
      const auto add = [&](const char* suffix, Bytes made, Value contribution, Value sum) {
        const Bytes wide = in_type(made);
        tape_->RunBackward(Memory(name + suffix, i == 0 ? 0 : made.count() / element_size_,
                                  i == 0 ? made : made + wide, wide),
                           i == 0 ? Pieces{contribution} : Pieces{contribution, sum}, {sum});
      };
      add(".add_queries", sizes.queries, dq, d_queries);
      add(".add_keys", sizes.keys, dk, d_keys);
    }
    if (pytorch) {  // home
      const Value received = tape_->MakeScratch(in_type(own.keys));
      tape_->CommunicateBackward(message(type), d_keys, received);
      d_keys = received;
    }
    if (core.fused) {
      Deliver(core, module, {d_queries, d_keys}, own.queries + own.keys);
      return;
    }
    const Value dk = tape_->MakeGradient(core.key), dv = tape_->MakeGradient(core.value);
    Value dq = d_queries;
    if (pytorch) {
      dq = tape_->MakeGradient(core.query);
      tape_->RunBackward(
          Memory(Joined(module, ".dgrad.to_queries"), 0, in_type(own.queries), own.queries),
          {d_queries}, {dq});
    }
    tape_->RunBackward(Memory(Joined(module, ".dgrad.to_keys"), 0, in_type(own.keys), own.keys),
                       {d_keys}, {dk, dv});
    Deliver(core, module, {dq, dk, dv}, {});
  });
  return y;
}

void LayerOperators::MergeInFp32(const std::string& name, const BlockSizes& sizes, Pieces& outputs,
                                 bool last, const Operand& y) {
  const Bytes wide(sizes.output_elements * kFp32Size);
  const Value block = tape_->Make(name + " output in FP32", wide);
  tape_->Run(Memory(name + ".float", 0, sizes.output, wide), {outputs.back()}, {block});
  if (outputs.size() == 1) {
    outputs.front() = block;
  } else {
    // out - sigmoid(difference of the logarithms) * (out - block)
    const Value merged = outputs.front().value;
    const std::int64_t elements = sizes.output_elements;
    tape_->Run(Memory(name + ".sub", elements, 2 * wide, wide), {merged, block}, {block});
    tape_->Run(Memory(name + ".mul", elements, wide, wide), {block}, {block});
    tape_->Run(Memory(name + ".merge", elements, 2 * wide, wide), {merged, block}, {merged});
  }
  if (!last) return;
  const Bytes all(Elements(y) * kFp32Size);
  tape_->Run(Memory(name + ".to", 0, all, Size(y)), {outputs.front()}, {y.value});
}

Operand LayerOperators::GatheredAttention(const Core& core, std::string_view module,
                                          const AttentionShape& shape) {
  const auto ranks = static_cast<int>(options_.context.parts());
  const std::int64_t s = DocumentLength() / ranks, half = s / 2;
  const std::int64_t rows = Documents() * s;
  const BlockSizes own = SizesOf(shape, {.rows = rows, .key_rows = rows});
  const BlockSizes whole = SizesOf(shape, {.rows = rows, .key_rows = rows * ranks});
  const std::array<Bytes, 2> part = {own.key, own.value}, all = {whole.key, whole.value};
  // The rank's two chunks of queries, each with the keys up to it.
  std::vector<Block> blocks;
  for (const std::int64_t chunk : {ranks / 2, 2 * ranks - 1 - ranks / 2}) {
    const std::int64_t keys = (chunk + 1) * half;
    blocks.push_back(OfEachDocument(half, keys, keys, half * half * (2 * chunk + 1), false));
  }
  const auto gather = [=, this](bool forward) {
    Value key = core.key, value = core.value;
    if (core.fused) {
      key = MakeIn(forward, Joined(module, " key"), part[0]);
      value = MakeIn(forward, Joined(module, " value"), part[1]);
      RunIn(forward, Memory(Joined(module, ".contiguous"), 0, own.keys, own.keys), {core.key},
            {key, value});
    }
    Pieces gathered;
    for (const Value of : {key, value}) {
      gathered.emplace_back(MakeIn(forward, Joined(module, " ranks' parts"), all[gathered.size()]));
      CommunicateIn(forward, {CollectiveKind::kAllGather, RingAxes(), element_}, of,
                    gathered.back());
    }
    Pieces ordered;
    for (std::size_t i = 0; i < gathered.size(); ++i) {
      ordered.emplace_back(MakeIn(forward, Joined(module, " all tokens"), all[i]));
      RunIn(forward, Memory(Joined(module, ".order"), 0, all[i], all[i]), {gathered[i]},
            {ordered.back()});
    }
    return ordered;
  };
  const Pieces keys = gather(true);
  const Operand y = Make(Joined(module, " output"), shape.heads * shape.values(), rows);
  const Value log_sum_exp = tape_->Make(Joined(module, " log-sum-exp"), own.row_numbers);
  const auto chunk_name = [=](std::size_t i) {
    return Joined(module, ".chunk_") + std::to_string(i);
  };
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    tape_->Run(FlashKernel(chunk_name(i), shape, blocks[i]), {core.query, keys[0], keys[1]},
               {y.value, log_sum_exp}, i == 0 ? shape.sink_positions.all() : std::vector<int>());
  }
  for (const Value kept : {core.query, core.key, core.value, y.value, log_sum_exp}) {
    tape_->Keep(kept);
  }

  tape_->OnBackward([=, this] {
    const Value dy = tape_->GradientOf(y.value);
    const Pieces again = gather(false);
    const Value d_queries =
        core.fused ? tape_->MakeScratch(own.queries) : tape_->MakeGradient(core.query);
    const Value d_all = tape_->MakeScratch(whole.keys);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const BlockSizes sizes = SizesOf(shape, blocks[i]);
      const Value d_seen = tape_->MakeScratch(sizes.keys);
      RunFlashGradient(chunk_name(i), shape, blocks[i], {dy, again[0], again[1]}, [&] {
        return Pieces{d_queries, d_seen};
      });
      tape_->RunBackward(Memory(chunk_name(i) + ".dgrad.add_keys", sizes.keys.count() / 2,
                                2 * sizes.keys, i == 0 ? whole.keys : sizes.keys),
                         i == 0 ? Pieces{d_seen} : Pieces{d_seen, d_all}, {d_all});
    }
    Pieces scattered;
    for (const char* of : {" key", " value"}) {
      const std::size_t i = scattered.size();
      const Value ordered = tape_->MakeScratch(all[i]);
      tape_->RunBackward(Memory(Joined(module, of) + ".dgrad.order", 0, all[i], all[i]), {d_all},
                         {ordered});
      scattered.emplace_back(core.fused          ? tape_->MakeScratch(part[i])
                             : scattered.empty() ? tape_->MakeGradient(core.key)
                                                 : tape_->MakeGradient(core.value));
      tape_->CommunicateBackward({CollectiveKind::kReduceScatter, RingAxes(), element_}, ordered,
                                 scattered.back());
    }
    Deliver(core, module, {d_queries, scattered[0], scattered[1]}, own.queries + own.keys);
  });
  return y;
}

LayerTape::Value LayerOperators::MakeIn(bool forward, std::string name, Bytes bytes) {
  return forward ? tape_->Make(std::move(name), bytes) : tape_->MakeScratch(bytes);
}

void LayerOperators::RunIn(bool forward, Kernel kernel, const Pieces& reads, const Pieces& writes) {
  if (forward) {
    tape_->Run(std::move(kernel), reads, writes);
  } else {
    tape_->RunBackward(std::move(kernel), reads, writes);
  }
}

void LayerOperators::CommunicateIn(bool forward, const LayerTape::Collective& collective,
                                   LayerTape::Piece source, LayerTape::Piece target) {
  if (forward) {
    tape_->Communicate(collective, source, target);
  } else {
    tape_->CommunicateBackward(collective, source, target);
  }
}

}  // namespace stepcast::model
