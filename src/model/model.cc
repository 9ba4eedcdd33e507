#include "src/model/model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/model/layer_tape.h"
#include "src/model/layer_variant.h"
#include "src/model/transformer_tensors.h"
#include "src/model/transformer_work.h"

namespace stepcast::model {
namespace {

// The time of one of a pass's equal parts; the first part takes the remainder.
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

// The source and target of a listed collective; the same value if in place.
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
      // A rank keeps its own part in place.
      return {tape.Make("communicated", whole), tape.Make("received", (ranks - 1) * part)};
    default: {
      const LayerTape::Value in_place = tape.Make("communicated", c.bytes);
      return {in_place, in_place};
    }
  }
}

// The collectives of a pass that involve several ranks.
std::vector<ListedCommunication> Among(const std::vector<ListedCommunication>& communication,
                                       const WorkOptions& options) {
  std::vector<ListedCommunication> several;
  for (const ListedCommunication& c : communication) {
    if (RanksAlong(c.axis, options) > 1) several.push_back(c);
  }
  return several;
}

// Records the passes of a listed layer on a tape. A listed layer is one module.
class ListedPasses {
 public:
  ListedPasses(const ListedLayer& layer, const WorkOptions& options)
      : layer_(layer), options_(options) {
    for (std::size_t i = 0; i < layer.parameters.size(); ++i) {
      parameters_.push_back(static_cast<int>(i));
    }
  }

  // Call once.
  LayerWork Run();

 private:
  using Value = LayerTape::Value;
  using Pieces = std::vector<LayerTape::Piece>;
  struct Pass {
    const char* name = "";
    Time time;
    const std::vector<ListedCommunication>& listed;
    bool forward = true;
    Pieces makes{};  // its last part
  };

  // Runs the parts of a pass with the collectives between them. A part reads the values that the
  // part before has communicated; the first part reads `reads`.
  void RunPass(const Pass& pass, const Pieces& reads);
  void RunPart(const Pass& pass, Time time, const Pieces& reads, const Pieces& writes, bool last);
  // `to_experts`: whether rows were last sent to experts.
  void Communicate(const ListedCommunication& listed, const std::pair<Value, Value>& message,
                   bool forward, bool& to_experts);
  void RunBackward();
  void RunBackwardInParts();

  const ListedLayer& layer_;
  const WorkOptions& options_;
  LayerTape tape_{DataType::kBf16};
  std::vector<int> parameters_;
  std::optional<Value> activation_;
  // Input and output of the parts, if backward has two.
  std::optional<Value> input_, output_;
};

LayerWork ListedPasses::Run() {
  if (layer_.activation > Bytes()) {
    activation_ = tape_.Make("activation", layer_.activation);
    tape_.Keep(*activation_);
  }
  if (options_.splits_backward) {
    input_ = tape_.Input("input", Bytes());
    output_ = tape_.Make("output", layer_.output);
  }
  RunPass({.name = ".forward",
           .time = layer_.forward,
           .listed = layer_.forward_communication,
           .makes = output_ ? Pieces{*output_} : Pieces()},
          {});
  tape_.OnBackward([this] {
    if (options_.splits_backward) {
      RunBackwardInParts();
    } else {
      RunBackward();
    }
  });
  LayerWork work = tape_.Finish(output_, {.splits_backward = options_.splits_backward});
  work.output = layer_.output;
  return work;
}

void ListedPasses::RunPass(const Pass& pass, const Pieces& reads) {
  const std::vector<ListedCommunication> communication = Among(pass.listed, options_);
  const std::size_t parts = communication.size() + 1;
  Pieces arrived = reads;
  bool to_experts = false;
  for (std::size_t i = 0; i < parts; ++i) {
    const bool last = i + 1 == parts;
    Pieces written;
    if (pass.forward && i == 0 && activation_) written.push_back(*activation_);
    std::optional<std::pair<Value, Value>> message;
    if (!last) {
      message = MessageOf(communication[i], options_, tape_);
      written.push_back(message->first);
    } else {
      written.insert(written.end(), pass.makes.begin(), pass.makes.end());
    }
    RunPart(pass, PartOf(pass.time, i, parts), arrived, written, last);
    if (last) return;
    Communicate(communication[i], *message, pass.forward, to_experts);
    arrived = {message->second};
  }
}

void ListedPasses::RunPart(const Pass& pass, Time time, const Pieces& reads, const Pieces& writes,
                           bool last) {
  Kernel kernel{.name = layer_.name + pass.name, .kind = KernelKind::kGiven, .given = time};
  if (pass.forward) {
    tape_.Run(std::move(kernel), reads, writes, parameters_);
    return;
  }
  const bool completes_gradients = last && !options_.splits_backward;
  tape_.RunBackward(std::move(kernel), reads, writes,
                    completes_gradients ? parameters_ : std::vector<int>(), parameters_);
}

void ListedPasses::Communicate(const ListedCommunication& listed,
                               const std::pair<Value, Value>& message, bool forward,
                               bool& to_experts) {
  LayerTape::Collective collective{.kind = listed.collective, .axes = listed.axis};
  if (ExchangesRows(listed)) {
    // Rows alternately go to their experts and back.
    to_experts = !to_experts;
    collective.loads = options_.experts.LoadsOf(to_experts ? AllToAllLoads::First::kReceivesMost
                                                           : AllToAllLoads::First::kSendsMost);
  }
  const auto [source, target] = message;
  if (forward) {
    tape_.Communicate(collective, source, target);
  } else {
    tape_.CommunicateBackward(collective, source, target);
  }
}

void ListedPasses::RunBackward() {
  RunPass({.name = ".backward",
           .time = layer_.backward,
           .listed = layer_.backward_communication,
           .forward = false},
          {});
}

// Communication belongs to the part for inputs.
void ListedPasses::RunBackwardInParts() {
  const Time weights =
      layer_.backward_weight.value_or(Time::FromPicoseconds(layer_.backward.picoseconds() / 2));
  const Value given = tape_.GradientOf(*output_), made = tape_.MakeGradient(*input_);
  RunPass({.name = ".backward_input",
           .time = layer_.backward - weights,
           .listed = layer_.backward_communication,
           .forward = false,
           .makes = {made}},
          {given});
  tape_.Deliver(*input_, made);
  Pieces reads{given};
  if (activation_) reads.push_back(*activation_);
  tape_.RunBackward(
      {.name = layer_.name + ".backward_weight", .kind = KernelKind::kGiven, .given = weights},
      reads, {}, parameters_, parameters_);
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
    STEPCAST_CHECK(listed.repeat >= 1, "this layer does not occur in the model");
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
    works.push_back(ListedPasses(layer, options).Run());
  }
  return works;
}

std::vector<int> WorkOfLayers(const Model& model, const WorkOptions& options,
                              std::span<const int> begins, std::span<const int> stages) {
  std::vector<int> works;
  works.reserve(model.layers.size());
  const auto* architecture = std::get_if<Architecture>(&model.source);
  if (architecture == nullptr) {
    for (const Layer& layer : model.layers) works.push_back(layer.listed);
    return works;
  }
  const std::vector<LayerVariant> variants = VariantsOf(*architecture, options);
  std::int64_t block = 0;
  std::map<int, std::int64_t> counted;  // blocks of a stage before its present chunk
  int stage = -1;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const Layer& layer = model.layers[i];
    const auto begun = std::find(begins.begin(), begins.end(), static_cast<int>(i));
    if (begun != begins.end()) {
      if (stage >= 0) counted[stage] = block;
      block = 0;
      const auto chunk = static_cast<std::size_t>(begun - begins.begin());
      if (options.checkpointed_blocks.is_part() && chunk < stages.size()) {
        stage = stages[chunk];
        block = counted[stage];
      }
    }
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
