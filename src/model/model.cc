#include "src/model/model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/model/layer_tape.h"
#include "src/model/layer_variant.h"
#include "src/model/transformer_tensors.h"
#include "src/model/transformer_work.h"

namespace stepcast::model {
namespace {

// One of a pass's equal parts; what does not divide comes first.
Time PartOf(Time pass, std::size_t part, std::size_t parts) {
  const auto count = static_cast<std::int64_t>(parts);
  const std::int64_t share = pass.picoseconds() / count;
  return Time::FromPicoseconds(part == 0 ? pass.picoseconds() - (count - 1) * share : share);
}

std::int64_t RanksAlong(parallel::AxisSet axis, const WorkOptions& options) {
  return axis == parallel::kExpert ? options.experts.ranks : options.tensor;
}

// An all-to-all of experts' rows.
bool ExchangesRows(const ListedCommunication& c) {
  return c.collective == CollectiveKind::kAllToAll && c.axis == parallel::kExpert;
}

// What a listed collective takes and makes; the same value: in place.
std::pair<LayerTape::Value, LayerTape::Value> MessageOf(const ListedCommunication& c,
                                                        const WorkOptions& options,
                                                        LayerTape& tape) {
  const std::int64_t ranks = RanksAlong(c.axis, options);
  const Bytes bytes =
      ExchangesRows(c)
          ? Bytes(std::llround(static_cast<double>(c.bytes.count()) * options.experts.load))
          : c.bytes;
  const Bytes part((bytes.count() + ranks - 1) / ranks);
  const Bytes whole = ranks * part;
  switch (c.collective) {
    case CollectiveKind::kAllGather:
      return {tape.Make("communicated", part), tape.Make("gathered", whole)};
    case CollectiveKind::kReduceScatter:
      return {tape.Make("communicated", whole), tape.Make("scattered", part)};
    case CollectiveKind::kAllToAll:
      // A rank's own part stays where it is.
      return {tape.Make("communicated", whole), tape.Make("received", (ranks - 1) * part)};
    default: {
      const LayerTape::Value in_place = tape.Make("communicated", c.bytes);
      return {in_place, in_place};
    }
  }
}

// Of the collectives of a pass those among several ranks.
std::vector<ListedCommunication> Among(const std::vector<ListedCommunication>& communication,
                                       const WorkOptions& options) {
  std::vector<ListedCommunication> several;
  for (const ListedCommunication& c : communication) {
    if (RanksAlong(c.axis, options) > 1) several.push_back(c);
  }
  return several;
}

LayerWork ListedWork(const ListedLayer& layer, const WorkOptions& options) {
  LayerTape tape(DataType::kBf16);
  std::vector<int> all;  // a listed layer is one module
  for (std::size_t i = 0; i < layer.parameters.size(); ++i) all.push_back(static_cast<int>(i));
  using Value = LayerTape::Value;
  std::optional<Value> activation;
  if (layer.activation > Bytes()) {
    activation = tape.Make("activation", layer.activation);
    tape.Keep(*activation);
  }
  // Where backward is parted, what the parts take and make.
  std::optional<Value> input, output;
  const bool splits = options.splits_backward;
  if (splits) {
    input = tape.Input("input", Bytes());
    output = tape.Make("output", layer.output);
  }
  // Runs the parts of a pass with the collectives between them. A part reads what the one before it
  // has communicated.
  const auto pass = [&](const char* name, Time time, const std::vector<ListedCommunication>& listed,
                        bool forward, const std::vector<LayerTape::Piece>& reads,
                        const std::vector<LayerTape::Piece>& makes) {
    const std::vector<ListedCommunication> communication = Among(listed, options);
    const std::size_t parts = communication.size() + 1;
    std::vector<LayerTape::Piece> arrived = reads;
    bool to_experts = false;
    for (std::size_t i = 0; i < parts; ++i) {
      Kernel kernel{
          .name = layer.name + name, .kind = KernelKind::kGiven, .given = PartOf(time, i, parts)};
      std::vector<LayerTape::Piece> written;
      if (forward && i == 0 && activation) written.push_back(*activation);
      std::optional<std::pair<Value, Value>> message;
      if (i + 1 < parts) {
        message = MessageOf(communication[i], options, tape);
        written.push_back(message->first);
      }
      const bool last = i + 1 == parts;
      if (last) written.insert(written.end(), makes.begin(), makes.end());
      const std::vector<int> gradients = last && !forward && !splits ? all : std::vector<int>();
      if (forward) {
        tape.Run(std::move(kernel), arrived, written, all);
      } else {
        tape.RunBackward(std::move(kernel), arrived, written, gradients, all);
      }
      arrived.clear();
      if (!message) continue;
      LayerTape::Collective collective{.kind = communication[i].collective,
                                       .axes = communication[i].axis};
      if (ExchangesRows(communication[i])) {
        // Rows go to their experts and back in turns.
        to_experts = !to_experts;
        collective.loads = options.experts.LoadsOf(to_experts ? AllToAllLoads::First::kReceivesMost
                                                              : AllToAllLoads::First::kSendsMost);
      }
      const auto [source, target] = *message;
      if (forward) {
        tape.Communicate(collective, source, target);
      } else {
        tape.CommunicateBackward(collective, source, target);
      }
      arrived.push_back(target);
    }
  };
  pass(".forward", layer.forward, layer.forward_communication, true, {},
       output ? std::vector<LayerTape::Piece>{*output} : std::vector<LayerTape::Piece>());
  tape.OnBackward([&] {
    if (!splits) {
      pass(".backward", layer.backward, layer.backward_communication, false, {}, {});
      return;
    }
    // What is communicated belongs to the gradient of the input.
    const Time weights =
        layer.backward_weight.value_or(Time::FromPicoseconds(layer.backward.picoseconds() / 2));
    const Value given = tape.GradientOf(*output), made = tape.MakeGradient(*input);
    pass(".backward_input", layer.backward - weights, layer.backward_communication, false, {given},
         {made});
    tape.Deliver(*input, made);
    std::vector<LayerTape::Piece> reads{given};
    if (activation) reads.push_back(*activation);
    tape.RunBackward(
        {.name = layer.name + ".backward_weight", .kind = KernelKind::kGiven, .given = weights},
        reads, {}, all, all);
  });
  LayerWork work = tape.Finish(output, {.splits_backward = splits});
  work.output = layer.output;
  return work;
}

}  // namespace

std::int64_t Model::parameter_count() const {
  std::int64_t count = 0;
  for (const Tensor& tensor : tensors) count += tensor.elements;
  return count;
}

std::int64_t Model::frozen_count() const {
  std::int64_t count = 0;
  for (const Tensor& tensor : frozen) count += tensor.elements;
  return count;
}

Model Adapted(const Model& model, const Lora& lora) {
  Architecture architecture = std::get<Architecture>(model.source);
  architecture.lora = lora;
  STEPCAST_CHECK(CheckLora(architecture).empty(), "impossible adapters");
  return Build(model.name, architecture);
}

DataType FrozenType(const Model& model, int frozen) {
  const auto* architecture = std::get_if<Architecture>(&model.source);
  const DataType type = architecture == nullptr ? DataType::kBf16 : architecture->lora.frozen_dtype;
  if (type != DataType::kFp8) return type;
  const Tensor& tensor = model.frozen[static_cast<std::size_t>(frozen)];
  return tensor.of_block && tensor.shape.size() > 1 ? DataType::kFp8 : DataType::kBf16;
}

Bytes FrozenBytes(const Model& model, int frozen) {
  return BytesOf(model.frozen[static_cast<std::size_t>(frozen)].elements,
                 FrozenType(model, frozen));
}

Bytes FrozenBytes(const Model& model) {
  Bytes bytes;
  for (std::size_t t = 0; t < model.frozen.size(); ++t) {
    bytes += FrozenBytes(model, static_cast<int>(t));
  }
  return bytes;
}

Model Build(std::string name, const Architecture& architecture) {
  STEPCAST_CHECK(Check(architecture).empty(), "an impossible architecture");
  TransformerLayout layout = LayOut(architecture);
  return {.name = std::move(name),
          .tensors = std::move(layout.tensors),
          .frozen = std::move(layout.frozen),
          .layers = std::move(layout.layers),
          .source = architecture};
}

Model Build(std::string name, const LayerList& list) {
  Model model{.name = std::move(name), .tensors = {}, .frozen = {}, .layers = {}, .source = list};
  for (std::size_t i = 0; i < list.layers.size(); ++i) {
    const ListedLayer& listed = list.layers[i];
    STEPCAST_CHECK(listed.repeat >= 1, "a layer that does not occur");
    for (std::int64_t r = 0; r < listed.repeat; ++r) {
      Layer layer{.name = listed.repeat > 1 ? fmt::format("{}.{}", listed.name, r) : listed.name,
                  .kind = LayerKind::kBlock,
                  .tensors = {},
                  .listed = static_cast<int>(i)};
      for (std::size_t p = 0; p < listed.parameters.size(); ++p) {
        layer.tensors.push_back(static_cast<int>(model.tensors.size()));
        model.tensors.push_back({.name = fmt::format("{}.parameter.{}", layer.name, p),
                                 .shape = {listed.parameters[p]},
                                 .elements = listed.parameters[p],
                                 .splits = {{.axis = parallel::Axis::kTensor}}});
      }
      model.layers.push_back(std::move(layer));
    }
  }
  return model;
}

std::vector<LayerWork> BuildWork(const Model& model, const WorkOptions& options) {
  if (const auto* architecture = std::get_if<Architecture>(&model.source)) {
    return TransformerWork(*architecture, options);
  }
  std::vector<LayerWork> works;
  for (const ListedLayer& layer : std::get<LayerList>(model.source).layers) {
    works.push_back(ListedWork(layer, options));
  }
  return works;
}

std::vector<int> WorkOfLayers(const Model& model, const WorkOptions& options,
                              std::span<const int> begins) {
  std::vector<int> works;
  works.reserve(model.layers.size());
  const auto* architecture = std::get_if<Architecture>(&model.source);
  if (architecture == nullptr) {
    for (const Layer& layer : model.layers) works.push_back(layer.listed);
    return works;
  }
  const std::vector<LayerVariant> variants = VariantsOf(*architecture, options);
  std::int64_t block = 0;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const Layer& layer = model.layers[i];
    if (std::find(begins.begin(), begins.end(), static_cast<int>(i)) != begins.end()) block = 0;
    works.push_back(IndexOf(variants, VariantOf(*architecture, options, layer, block)));
    if (layer.kind == LayerKind::kBlock) ++block;
  }
  return works;
}

Time GivenOptimizerStep(const Model& model) {
  const auto* list = std::get_if<LayerList>(&model.source);
  return list == nullptr ? Time() : list->optimizer_step;
}

}  // namespace stepcast::model
