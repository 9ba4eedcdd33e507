#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/collective_kind.h"
#include "src/model/column_region.h"
#include "src/model/layer_operators.h"
#include "src/model/operator_name.h"
#include "src/parallel/axis.h"

// The operators with which tensor parallelism enters and leaves a layer.
namespace stepcast::model {
namespace {

using Value = LayerTape::Value;

constexpr parallel::AxisSet kTensor = parallel::Axis::kTensor;

// Multiprocessors of a collective, by Transformer Engine's defaults
// (transformer_engine/pytorch/module/base.py, initialize_ub: num_sm).
constexpr int kUserBufferMultiprocessors = 16;

}  // namespace

LayerTape::Collective LayerOperators::Beside(CollectiveKind kind) const {
  LayerTape::Collective collective{kind, kTensor, element_};
  if (user_buffers()) collective.multiprocessors = kUserBufferMultiprocessors;
  return collective;
}

std::vector<LayerTape::Piece> LayerOperators::WithAgreedScale(bool forward, Value part,
                                                              std::int64_t elements,
                                                              const std::string& name) {
  if (!reads_for_scales()) return {part};
  const Bytes one(kFp32Size);
  const Kernel largest = Memory(name + ".amax", 0, BytesOfElements(elements), one);
  const LayerTape::Collective agree{CollectiveKind::kAllReduce, kTensor, DataType::kFp32};
  const Value scale = MakeIn(forward, name + " scale", one);
  RunIn(forward, largest, {part}, {scale});
  CommunicateIn(forward, agree, scale, scale);
  return {part, scale};
}

// 8-bit values are gathered in place, two as one 16-bit number.
QuantizedCopies LayerOperators::Gatherable(bool forward, Value part, std::int64_t elements,
                                           const std::string& name) {
  if (!gathers_quantized()) return {.rows = part, .columns = part};
  const Bytes bytes = QuantizedBytes(elements);
  const int copies = scales_both_ways() ? 2 : 1;
  const std::vector<LayerTape::Piece> reads = WithAgreedScale(forward, part, elements, name);
  const Kernel kernel = Memory(name + ".cast", 0, BytesOfElements(elements), copies * bytes);
  if (!forward) {
    // Both are gathered at once.
    const Value cast = tape_->MakeScratch(copies * bytes);
    tape_->RunBackward(kernel, reads, {cast});
    return {.rows = cast, .columns = cast};
  }
  QuantizedCopies cast;
  cast.rows = cast.columns = tape_->Make(name + InLowPrecision(), bytes);
  if (copies == 1) {
    tape_->Run(kernel, reads, {cast.rows});
    return cast;
  }
  cast.columns = tape_->Make(name + InLowPrecision() + ", by columns", bytes);
  tape_->Run(kernel, reads, {cast.rows, cast.columns});
  return cast;
}

void LayerOperators::GatherTokens(bool forward, Value part, Value whole, Bytes bytes,
                                  std::string_view name) {
  const LayerTape::Collective gather{CollectiveKind::kAllGather, kTensor, element_};
  if (!options_.divides_sequences) return CommunicateIn(forward, gather, part, whole);
  const Value parts = MakeIn(forward, Joined(name, " ranks' parts"), bytes);
  CommunicateIn(forward, gather, part, parts);
  RunIn(forward, Memory(Joined(name, forward ? ".order" : ".dgrad.order"), 0, bytes, bytes),
        {parts}, {whole});
}

void LayerOperators::ScatterTokens(bool forward, Value whole, Value part, Bytes bytes,
                                   std::string_view name) {
  LayerTape::Collective scatter{CollectiveKind::kReduceScatter, kTensor, element_};
  if (!forward) scatter = Beside(CollectiveKind::kReduceScatter);
  if (!options_.divides_sequences) return CommunicateIn(forward, scatter, whole, part);
  const Value parts = MakeIn(forward, Joined(name, " ranks' parts"), bytes);
  RunIn(forward, Memory(Joined(name, forward ? ".order" : ".dgrad.order"), 0, bytes, bytes),
        {whole}, {parts});
  CommunicateIn(forward, scatter, parts, part);
}

LayerOperators::Pieces LayerOperators::ExchangeParts(bool forward, Value own, Value others) {
  const bool ring = user_buffers();
  const auto ranks = static_cast<int>(options_.tensor);
  Pieces parts{own};
  for (int i = 1; i < ranks; ++i) {
    // Around a ring each rank sends on the part that it received last; otherwise every rank takes a
    // part from its owner.
    const LayerTape::Piece source = ring ? parts.back() : LayerTape::Piece(own);
    parts.emplace_back(others, PieceRange{.piece = i - 1, .pieces = ranks - 1});
    const LayerTape::Collective message{.kind = CollectiveKind::kSendRecv,
                                        .axes = kTensor,
                                        .type = element_,
                                        .distance = ring ? 1 : ranks - i,
                                        .multiprocessors = 0};
    CommunicateIn(forward, message, source, parts.back());
  }
  return parts;
}

Operand LayerOperators::EnterColumns(Operand x, std::string_view name, bool as_it_is) {
  if (options_.tensor == 1) return x;
  const auto region = std::make_shared<ColumnRegion>();
  if (!options_.sequence_parallel) {
    Operand whole = x;
    whole.value = tape_->Alias(x.value);
    whole.region = region;
    region->inputs = {x.value};
    region->kept = {x.value};
    region->begin_backward = [] {};
    tape_->OnBackward([=, this] {
      const Value gradient = tape_->GradientOf(whole.value);
      const auto add_up = [&] {
        tape_->CommunicateBackward({CollectiveKind::kAllReduce, kTensor, element_}, gradient,
                                   gradient);
      };
      const bool beside = options_.sums_beside_weights && options_.begins_in_issue_order;
      if (beside) add_up();
      for (const auto& weight_gradients : region->weight_gradients) weight_gradients(std::nullopt);
      region->weight_gradients.clear();  // which refer to the region
      if (!beside) add_up();
      tape_->Deliver(x.value, gradient);
    });
    return whole;
  }
  Operand whole = Make("gathered", x.width, x.tokens * options_.tensor);
  whole.region = region;
  region->quantized = gathers_quantized() && (!as_it_is || overlaps());
  const QuantizedCopies own = region->quantized
                                  ? Gatherable(true, x.value, Elements(x), "gathered.input")
                                  : QuantizedCopies{.rows = x.value, .columns = x.value};
  const Value part = own.rows;
  const Bytes bytes =
      region->quantized ? options_.tensor * QuantizedBytes(Elements(x)) : Size(whole);
  if (overlaps()) {
    const Value others = tape_->Make(
        "gathered from others", Bytes(bytes.count() / options_.tensor * (options_.tensor - 1)));
    if (user_buffers()) tape_->Register(others, Joined(name, " user buffer: gathered input"));
    region->inputs = ExchangeParts(true, part, others);
    region->kept = {part, others};
  } else {
    const Value all =
        region->quantized ? tape_->Make("gathered" + InLowPrecision(), bytes) : whole.value;
    GatherTokens(true, part, all, bytes, Joined(name, ".input"));
    region->inputs = {all};
    region->kept = {all};
  }
  if (options_.regathers) region->kept = {own.columns};
  region->begin_backward = [=, this, region = region.get()] {
    if (!options_.regathers || region->gathered) return;
    region->gathered = tape_->MakeScratch(bytes);
    if (user_buffers()) {
      tape_->Register(*region->gathered, Joined(name, " user buffer: input gathered again"));
    }
    tape_->CommunicateBackward(Beside(CollectiveKind::kAllGather), own.columns, *region->gathered);
  };
  tape_->OnBackward([=, this, input = Joined(name, ".input")] {
    const Value gradient = tape_->GradientOf(whole.value);
    const Value scattered = tape_->MakeGradient(x.value);
    if (user_buffers()) {
      tape_->Register(gradient, Joined(name, " user buffer: gradient of the input"));
    }
    const bool beside = user_buffers() || options_.begins_in_issue_order;
    if (beside) ScatterTokens(false, gradient, scattered, Size(whole), input);
    for (const auto& weight_gradients : region->weight_gradients) {
      weight_gradients(region->gathered);
    }
    region->weight_gradients.clear();  // which refer to the region
    if (!beside) ScatterTokens(false, gradient, scattered, Size(whole), input);
    tape_->Deliver(x.value, scattered);
  });
  return whole;
}

std::array<Operand, 3> LayerOperators::GatherHeads(Operand x, std::string_view module,
                                                   const std::array<std::int64_t, 3>& widths) {
  const Bytes all(Size(x).count() * options_.tensor);
  const Bytes taken = BytesOfElements(x.tokens * (widths[0] + widths[1] + widths[2]));
  // NCCL gathers the ranks' parts one after the other. A copy then brings together the columns of
  // each token.
  const Value parts = tape_->Make(Joined(module, " ranks' parts"), all);
  const Value whole = tape_->Make(Joined(module, " gathered"), all);
  tape_->Communicate({CollectiveKind::kAllGather, kTensor, element_}, x.value, parts);
  tape_->Run(Memory(Joined(module, ".columns"), 0, all, all), {parts}, {whole});
  const std::array<Operand, 3> heads = {Make(Joined(module, " query"), widths[0], x.tokens),
                                        Make(Joined(module, " key"), widths[1], x.tokens),
                                        Make(Joined(module, " value"), widths[2], x.tokens)};
  tape_->Run(Memory(Joined(module, ".heads"), 0, taken, taken), {whole},
             {heads[0].value, heads[1].value, heads[2].value});
  tape_->OnBackward([=, this] {
    // Zeros except for the rank's own heads, which again are brought into the ranks' order.
    const Value gradient =
        tape_->RunToScratch(Memory(Joined(module, ".heads.dgrad"), 0, taken, all),
                            {tape_->GradientOf(heads[0].value), tape_->GradientOf(heads[1].value),
                             tape_->GradientOf(heads[2].value)});
    const Value ordered =
        tape_->RunToScratch(Memory(Joined(module, ".columns.dgrad"), 0, all, all), {gradient});
    const Value part = tape_->MakeGradient(x.value);
    tape_->CommunicateBackward({CollectiveKind::kReduceScatter, kTensor, element_}, ordered, part);
    tape_->Deliver(x.value, part);
  });
  return heads;
}

Operand LayerOperators::LinearRows(Operand x, std::string_view module, std::int64_t out,
                                   ModulePositions parameters) {
  if (options_.tensor == 1) return Linear(x, module, out, parameters);
  ModulePositions weight = parameters, bias = parameters;
  weight.bias = -1;
  weight.frozen_bias = false;
  const auto rows = std::make_shared<RowRegion>();
  const auto product = [&] {
    return Product(x, module, {{module, out, weight}}, Outputs::kOne, rows).front();
  };
  if (!overlaps()) return LeaveRows(product(), module, bias);

  const auto ranks = static_cast<int>(options_.tensor);
  const Operand sum = Make(Joined(module, " output's part"), out, x.tokens / ranks);
  if (user_buffers()) {
    const Value whole = tape_->Make("", BytesOfElements(x.tokens * out));
    tape_->Register(whole, Joined(module, " user buffer: output"));
    for (int i = 0; i < kPiecesOfUserBuffers; ++i) {
      rows->outputs.emplace_back(whole, PieceRange{.piece = i, .pieces = kPiecesOfUserBuffers});
    }
    rows->made = [=, this, outputs = rows->outputs](int i) {
      tape_->Communicate(Beside(CollectiveKind::kReduceScatter), outputs[i],
                         {sum.value, PieceRange{.piece = i, .pieces = kPiecesOfUserBuffers}});
    };
    const Operand y = product();
    LeaveSum(y, sum, module, bias);
    return sum;
  }
  // Each rank computes the parts of other ranks first and its own last, then adds the parts that it
  // receives.
  const Value made =
      tape_->Make(Joined(module, " output's parts"), BytesOfElements(x.tokens * out));
  const Value received = tape_->Make(Joined(module, " output's parts, received"),
                                     BytesOfElements(x.tokens / ranks * (ranks - 1) * out));
  for (int i = 0; i < ranks; ++i) {
    rows->outputs.emplace_back(made, PieceRange{.piece = i, .pieces = ranks});
  }
  rows->made = [=, this, outputs = rows->outputs](int i) {
    if (i + 1 == ranks) return;
    tape_->Communicate({.kind = CollectiveKind::kSendRecv,
                        .axes = kTensor,
                        .type = element_,
                        .distance = i + 1,
                        .multiprocessors = 0},
                       outputs[i], {received, PieceRange{.piece = i, .pieces = ranks - 1}});
  };
  const Operand y = product();
  tape_->Run(Memory(Joined(module, ".sum"), Elements(sum) * ranks, Size(sum) * ranks, Size(sum)),
             {rows->outputs.back(), received}, {sum.value});
  LeaveSum(y, sum, module, bias);
  return sum;
}

Operand LayerOperators::LeaveRows(Operand x, std::string_view module, ModulePositions parameters) {
  if (options_.tensor == 1) return x;
  Operand sum = x;
  if (options_.sequence_parallel) {
    sum = Make(Joined(module, " output's part"), x.width, x.tokens / options_.tensor);
    ScatterTokens(true, x.value, sum.value, Size(x), Joined(module, ".output"));
  } else {
    AddUp(x);
  }
  LeaveSum(x, sum, module, parameters);
  return sum;
}

void LayerOperators::LeaveSum(const Operand& x, const Operand& sum, std::string_view module,
                              ModulePositions parameters) {
  tape_->OnBackward([=, this] {
    const Value gradient = tape_->GradientOf(sum.value);
    if (options_.sequence_parallel) {
      const bool low = x.rows && gathers_quantized();
      const Value part =
          x.rows ? Gatherable(false, gradient, Elements(sum), Joined(module, ".output_grad")).rows
                 : gradient;
      const Bytes whole =
          low ? options_.tensor * (scales_both_ways() ? 2 : 1) * QuantizedBytes(Elements(sum))
              : BytesOfElements(Elements(x));
      if (x.rows && overlaps()) {
        const Value others =
            tape_->MakeScratch(Bytes(whole.count() / options_.tensor * (options_.tensor - 1)));
        if (user_buffers()) {
          tape_->Register(others, Joined(module, " user buffer: gathered gradient"));
        }
        x.rows->gradient = ExchangeParts(false, part, others);
        x.rows->quantized = low;
      } else {
        const Value all = tape_->MakeScratch(whole);
        GatherTokens(false, part, all, whole, Joined(module, ".output"));
        if (low) {
          x.rows->gradient = {all};
          x.rows->quantized = true;
        } else {
          tape_->Deliver(x.value, all);
        }
      }
    }
    if (parameters.bias < 0) return;
    RunPartGradients(
        Memory(Joined(module, ".bias.grad"), Elements(sum), Size(sum), BytesOfElements(sum.width)),
        {gradient}, {parameters.bias}, parameters);
  });
}

Operand LayerOperators::AddUp(Operand x) {
  if (options_.tensor > 1) {
    tape_->Communicate({CollectiveKind::kAllReduce, kTensor, element_}, x.value, x.value);
  }
  return x;
}

void LayerOperators::RunPartGradients(Kernel kernel, LayerTape::Values reads,
                                      std::vector<int> gradients,
                                      const ModulePositions& parameters) {
  if (!options_.adds_up_parts) {
    tape_->RunBackward(std::move(kernel), reads, {}, std::move(gradients), parameters.all());
    return;
  }
  const Bytes bytes = kernel.written;
  const Value made = tape_->MakeScratch(bytes);
  const std::string name = Joined(kernel.name, ".add");
  tape_->RunBackward(std::move(kernel), reads, {made}, {}, parameters.all());
  sums_of_parts_.push_back([=, this, gradients = std::move(gradients)] {
    tape_->CommunicateBackward({CollectiveKind::kAllReduce, kTensor, element_}, made, made);
    tape_->RunBackward(Memory(name, 0, bytes, bytes), {made}, {}, gradients, parameters.all());
  });
}

void LayerOperators::AddUpParts() {
  if (!options_.adds_up_parts) return;
  tape_->OnBackward([this] {
    for (const auto& add_up : sums_of_parts_) add_up();
  });
}

Operand LayerOperators::PartOfTokens(Operand x, std::string_view module) {
  if (!options_.sequence_parallel) return x;
  const Operand part = Make(Joined(module, ".part output"), x.width, x.tokens / options_.tensor);
  tape_->Run(Memory(Joined(module, ".part"), 0, Size(part), Size(part)), {x.value}, {part.value});
  tape_->OnBackward([=, this] {
    const Value whole = tape_->MakeGradient(x.value);
    tape_->CommunicateBackward({CollectiveKind::kAllGather, kTensor, element_},
                               tape_->GradientOf(part.value), whole);
    tape_->Deliver(x.value, whole);
  });
  return part;
}

Operand LayerOperators::AllTokens(Operand x, std::string_view module) {
  if (options_.tensor == 1) return x;
  Operand whole = x;
  if (!options_.sequence_parallel) {
    whole.value = tape_->Alias(x.value);
    tape_->OnBackward([=, this] {
      const Value gradient = tape_->GradientOf(whole.value);
      tape_->CommunicateBackward({CollectiveKind::kAllReduce, kTensor, element_}, gradient,
                                 gradient);
      tape_->Deliver(x.value, gradient);
    });
    return whole;
  }
  whole = Make(Joined(module, " gathered"), x.width, x.tokens * options_.tensor);
  const std::string name(module);
  GatherTokens(true, x.value, whole.value, Size(whole), name);
  tape_->OnBackward([=, this] {
    const Value part = tape_->MakeGradient(x.value);
    ScatterTokens(false, tape_->GradientOf(whole.value), part, Size(whole), name);
    tape_->Deliver(x.value, part);
  });
  return whole;
}

Operand LayerOperators::GatherFeatures(Operand x, std::string_view module) {
  if (options_.tensor == 1) return x;
  const Operand whole = Make(Joined(module, " gathered"), x.width * options_.tensor, x.tokens);
  const Value parts = tape_->Make(Joined(module, " gathered parts"), Size(whole));
  tape_->Communicate({CollectiveKind::kAllGather, kTensor, element_}, x.value, parts);
  tape_->Run(Memory(Joined(module, ".cat"), 0, Size(whole), Size(whole)), {parts}, {whole.value});
  tape_->RunOnBackward({Memory(Joined(module, ".split"), 0, Size(x), Size(x))}, {whole.value},
                       {x.value});
  return whole;
}

Operand LayerOperators::FeaturesToTokens(Operand x, std::string_view module) {
  const auto ranks = static_cast<int>(options_.tensor);
  const Operand y =
      Make(Joined(module, " of the tokens"), x.width * options_.tensor, x.tokens / options_.tensor);
  // Each rank has a piece for every other rank, and assembles its own piece and those that it
  // receives.
  const auto exchange = [=, this](bool forward, Value whole, Value made, const std::string& name) {
    const Bytes others(Size(x).count() / ranks * (ranks - 1));
    const Value received = MakeIn(forward, name + " received", others);
    CommunicateIn(forward, {CollectiveKind::kAllToAll, kTensor, element_}, whole, received);
    const LayerTape::Piece own(whole, PieceRange{.piece = ranks - 1, .pieces = ranks});
    RunIn(forward, Memory(name + ".cat", 0, Size(x), Size(x)), {own, received}, {made});
  };
  exchange(true, x.value, y.value, Joined(module, ".to_tokens"));
  tape_->OnBackward([=, this] {
    const Value pieces =
        tape_->RunToScratch(Memory(Joined(module, ".to_features.split"), 0, Size(x), Size(x)),
                            {tape_->GradientOf(y.value)});
    const Value dx = tape_->MakeGradient(x.value);
    exchange(false, pieces, dx, Joined(module, ".to_features"));
    tape_->Deliver(x.value, dx);
  });
  return y;
}

std::optional<Value> LayerOperators::AgreedRows(Kernel kernel, Value from, std::string name,
                                                std::int64_t numbers) {
  if (options_.tensor == 1) {
    tape_->Run(std::move(kernel), {from}, {});
    return std::nullopt;
  }
  const Value rows = tape_->Make(std::move(name), Bytes(tokens_ * numbers * kFp32Size));
  tape_->Run(std::move(kernel), {from}, {rows});
  tape_->Communicate({CollectiveKind::kAllReduce, kTensor, DataType::kFp32}, rows, rows);
  return rows;
}

}  // namespace stepcast::model
