#include "src/scenario/model_file.h"

#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/collective_kind.h"
#include "src/base/files.h"
#include "src/base/printable.h"
#include "src/base/quantity.h"
#include "src/formats/json_tree.h"
#include "src/model/architecture.h"
#include "src/parallel/axis.h"
#include "src/scenario/block_reader.h"
#include "src/scenario/data_root.h"
#include "src/scenario/dimension_reader.h"
#include "src/scenario/document.h"
#include "src/scenario/family_config.h"
#include "src/scenario/family_file.h"

namespace stepcast::scenario {
namespace {

using model::Architecture;
using model::LayerList;
using model::ListedLayer;

enum class ModelKind : std::uint8_t { kTransformer, kLayers };

constexpr std::string_view kJsonEnding = ".json";

// "llama3.1-8b" for "models/llama3.1-8b.yaml". A config.json is named after its folder, because all
// of them have the same file name.
std::string NameOfFile(std::string_view file) {
  const auto split = [](std::string_view path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string_view::npos
               ? std::pair(std::string_view(), path)
               : std::pair(path.substr(0, slash), path.substr(slash + 1));
  };
  const auto [folder, name] = split(file);
  if (name == "config.json" && !folder.empty()) return std::string(split(folder).second);
  return std::string(name.substr(0, name.rfind('.')));
}

// ---- kind: transformer ----

// The family of a file with described blocks; null: general module names.
std::shared_ptr<const model::Family> ReadDescribedFamily(MappingReader& reader) {
  const auto name = reader.ReadText("family", Need::kOptional);
  if (!name) return nullptr;
  auto family = FamilyOfBlocks(*name, reader.diagnostics());
  if (family == nullptr && !reader.failed()) {
    reader.Report("family", "input.unknown-word",
                  fmt::format("the family {} does not exist", Quoted(*name)),
                  fmt::format("write one of {}, or remove 'family' to use the general names of "
                              "modules",
                              fmt::join(FamiliesOfBlocks(), ", ")));
  }
  return family;
}

// `family`: for a config.json, whose description does not name it.
std::optional<model::Model> ReadTransformer(MappingReader& reader, std::string name,
                                            std::shared_ptr<const model::Family> family = nullptr) {
  const bool described = DescribesBlocks(reader);
  if (described && family == nullptr) family = ReadDescribedFamily(reader);
  const Architecture architecture =
      described ? ReadBlocks(reader, std::move(family)) : ReadDimensions(reader);
  CheckConstants(reader, architecture);
  reader.ReadText("source", Need::kOptional);
  const std::optional<std::int64_t> stated =
      reader.ReadInteger("parameters", Need::kOptional, {.least = 1});
  reader.Finish();
  if (reader.failed()) return std::nullopt;

  for (model::ArchitectureFault& fault : Check(architecture)) {
    reader.Report(fault.field, "model.impossible", std::move(fault.message), std::move(fault.hint));
  }
  if (reader.failed()) return std::nullopt;
  model::Model model = Build(std::move(name), architecture);
  if (stated.has_value() && *stated != model.all_parameter_count()) {
    reader.Report(
        "parameters", "model.parameter-count",
        fmt::format("a model with these dimensions has {} parameters, but 'parameters' is {}",
                    model.all_parameter_count(), *stated),
        "correct the dimensions, or remove 'parameters'");
    return std::nullopt;
  }
  return model;
}

// ---- kind: layers ----

// `communication: {forward: [[all_reduce, tensor, 8 MiB]], backward: [...]}`.
std::vector<model::ListedCommunication> ReadCommunication(MappingReader& reader,
                                                          std::string_view pass) {
  std::vector<model::ListedCommunication> list;
  const auto entries = reader.ReadSequence(pass, Need::kOptional);
  if (!entries) return list;
  for (const Node& entry : *entries) {
    Diagnostics& diagnostics = reader.diagnostics();
    const auto fields = ReadSequence(entry, diagnostics);
    if (!fields) continue;
    if (fields->size() != 3) {
      diagnostics.push_back(
          {"model.communication", entry.location(),
           fmt::format("a collective must have 3 entries, not {}", fields->size()),
           "write [collective, axis, size], for example [all_reduce, tensor, 8 MiB]"});
      continue;
    }
    const auto collective =
        ReadWord<CollectiveKind>((*fields)[0],
                                 {{"all_reduce", CollectiveKind::kAllReduce},
                                  {"all_gather", CollectiveKind::kAllGather},
                                  {"reduce_scatter", CollectiveKind::kReduceScatter},
                                  {"all_to_all", CollectiveKind::kAllToAll}},
                                 diagnostics);
    const auto axis = ReadWord<parallel::AxisSet>(
        (*fields)[1],
        {{"tensor", parallel::AxisSet(parallel::Axis::kTensor)}, {"expert", parallel::kExpert}},
        diagnostics);
    const auto bytes = ReadBytes((*fields)[2], Zero::kRefused, diagnostics);
    if (collective && axis && bytes) list.push_back({*collective, *axis, *bytes});
  }
  return list;
}

ListedLayer ReadListedLayer(const Node& node, Diagnostics& diagnostics) {
  MappingReader reader(node, diagnostics);
  ListedLayer layer;
  reader.Required("name", layer.name);
  reader.Optional("repeat", layer.repeat, {1, kMostListedLayers});
  reader.List("parameters", Need::kRequired, layer.parameters,
              [](const Node& size, Diagnostics& mistakes) {
                return ReadInteger(size, {1, kMostListedParameters}, mistakes);
              });
  reader.Required("forward", layer.forward);
  reader.Required("backward", layer.backward);
  reader.Optional("backward_weight", layer.backward_weight);
  if (layer.backward_weight && *layer.backward_weight > layer.backward && !reader.failed()) {
    reader.Report(
        "backward_weight", "model.backward-weight",
        fmt::format(
            "the time of weight gradients, {}, is longer than the time of the backward pass, {}",
            FormatTime(*layer.backward_weight), FormatTime(layer.backward)),
        "set 'backward' to the time of the complete backward pass: the gradients of inputs and of "
        "weights");
  }
  reader.Optional("activation", layer.activation);
  reader.Section("communication", Need::kOptional, [&](MappingReader& communication) {
    layer.forward_communication = ReadCommunication(communication, "forward");
    layer.backward_communication = ReadCommunication(communication, "backward");
  });
  reader.Optional("output", layer.output);
  reader.Finish();
  return layer;
}

// Sums over a list's layers, in long double, which holds more than 64 bits.
struct Totals {
  std::int64_t layers = 0;  // at most kMostListedLayers a line of the file
  long double tensors = 0, parameters = 0, picoseconds = 0, activation = 0;
};

Totals TotalsOf(const LayerList& list) {
  Totals totals;
  for (const ListedLayer& layer : list.layers) {
    const auto repeat = static_cast<long double>(layer.repeat);
    totals.layers += layer.repeat;
    totals.tensors += repeat * static_cast<long double>(layer.parameters.size());
    for (const std::int64_t elements : layer.parameters) {
      totals.parameters += repeat * static_cast<long double>(elements);
    }
    totals.picoseconds += repeat * (static_cast<long double>(layer.forward.picoseconds()) +
                                    static_cast<long double>(layer.backward.picoseconds()));
    totals.activation += repeat * static_cast<long double>(layer.activation.count());
  }
  return totals;
}

void CheckSize(const LayerList& list, MappingReader& reader) {
  const Totals totals = TotalsOf(list);
  const auto limit = [&reader](bool beyond, std::string_view what) {
    if (!beyond) return;
    reader.Report("layers", "model.too-large",
                  fmt::format("the layers, including repeats, exceed the maximum of {}", what),
                  "check the repeats, sizes and units of the layers");
  };
  limit(totals.layers > kMostListedLayers, fmt::format("{} layers", kMostListedLayers));
  limit(totals.tensors > static_cast<long double>(kMostListedTensors),
        fmt::format("{} parameter tensors", kMostListedTensors));
  limit(totals.parameters > static_cast<long double>(kMostListedParameters),
        fmt::format("{} parameters", kMostListedParameters));
  limit(totals.picoseconds + static_cast<long double>(list.optimizer_step.picoseconds()) >
            static_cast<long double>(kMostListedTime.picoseconds()),
        "15 min for one micro-batch and the optimizer step");
  limit(totals.activation > static_cast<long double>(kMostListedActivation.count()),
        "1 PiB of activations");
  if (totals.parameters == 0) {
    reader.Report("layers", "model.no-parameters",
                  "no layer has parameters, so there is nothing to train",
                  "add 'parameters: [ELEMENTS, ...]' to at least one layer");
  }
}

std::optional<model::Model> ReadLayerList(MappingReader& reader, std::string name,
                                          Diagnostics& diagnostics) {
  LayerList list;
  if (const auto layers = reader.ReadSequence("layers", Need::kRequired)) {
    if (layers->empty()) {
      reader.Report("layers", "input.no-value", "'layers' must not be empty",
                    "write for example '- {name: block, parameters: [524288], forward: 10 ms, "
                    "backward: 20 ms}'");
    }
    for (const Node& layer : *layers) list.layers.push_back(ReadListedLayer(layer, diagnostics));
  }
  reader.Optional("optimizer_step", list.optimizer_step);
  reader.ReadText("source", Need::kOptional);
  reader.Finish();
  if (reader.failed()) return std::nullopt;
  CheckSize(list, reader);
  if (reader.failed()) return std::nullopt;
  return Build(std::move(name), list);
}

bool IsHuggingFace(const Node& node) {
  return Child(*node.tree(), "model_type") != nullptr && Child(*node.tree(), "kind") == nullptr;
}

Result<LoadedModel> LoadDescribed(const formats::JsonObject& config, const Node& family,
                                  const std::string& path, const ConfigParts& parts = {}) {
  const auto architecture_of = [](const Node& description) {
    Diagnostics reported_later;
    MappingReader reader(description, reported_later);
    return ReadDimensions(reader);
  };
  Diagnostics diagnostics;
  std::optional<FamilyModel> described =
      DescribeConfig(config, family, parts, architecture_of, diagnostics);
  if (!described) return tl::make_unexpected(std::move(diagnostics));
  MappingReader reader(described->description, diagnostics);
  reader.ReadText("kind", Need::kOptional);
  std::string name = described->name.empty() ? NameOfFile(path) : described->name;
  std::optional<model::Model> model = ReadTransformer(reader, std::move(name), described->family);
  if (!model) return tl::make_unexpected(std::move(diagnostics));
  return LoadedModel{.model = *std::move(model),
                     .warnings = std::move(described->warnings),
                     .constants = described->constants};
}

}  // namespace

std::optional<model::Model> ReadModel(const Node& node, Diagnostics& diagnostics) {
  MappingReader reader(node, diagnostics);
  const auto kind = reader.ReadWord<ModelKind>(
      "kind", Need::kRequired,
      {{"transformer", ModelKind::kTransformer}, {"layers", ModelKind::kLayers}});
  std::string name = reader.ReadText("name", Need::kOptional)
                         .value_or(node.path().empty() ? NameOfFile(node.file()) : node.path());
  // Without a kind, every other key would seem unknown.
  if (!kind.has_value()) return std::nullopt;
  return *kind == ModelKind::kTransformer ? ReadTransformer(reader, std::move(name))
                                          : ReadLayerList(reader, std::move(name), diagnostics);
}

Result<LoadedModel> ParseConfig(std::string_view text, const std::string& path) {
  const Result<formats::JsonObject> config = formats::JsonObject::Parse(text, path);
  if (!config.has_value()) return tl::make_unexpected(config.error());
  const Result<Node> family = FamilyOf(*config);
  if (!family.has_value()) return tl::make_unexpected(family.error());
  return LoadDescribed(*config, *family, path);
}

Result<LoadedModel> LoadModel(const std::string& path) {
  Diagnostics diagnostics;
  const std::optional<std::string> text = ReadTextFile(path, diagnostics);
  if (!text.has_value()) return tl::make_unexpected(std::move(diagnostics));
  if (path.ends_with(kJsonEnding)) return ParseConfig(*text, path);
  if (const std::optional<Node> node = ParseDocument(*text, path, diagnostics)) {
    if (IsHuggingFace(*node)) return ParseConfig(*text, path);
    std::optional<model::Model> model = ReadModel(*node, diagnostics);
    if (model.has_value() && diagnostics.empty()) return LoadedModel{*std::move(model)};
  }
  return tl::make_unexpected(std::move(diagnostics));
}

bool NamesFamily(const Node& node) { return Child(*node.tree(), "config") != nullptr; }

std::optional<LoadedModel> ReadConfigOfFamily(const Node& node, std::string_view folder,
                                              Diagnostics& diagnostics) {
  MappingReader reader(node, diagnostics);
  const auto file = [&](std::string_view key) -> std::optional<std::string> {
    const auto path = reader.ReadText(key, Need::kRequired);
    if (!path) return std::nullopt;
    auto found = FindInput(*path, folder);
    if (!found) {
      reader.Report(key, "file.not-found", fmt::format("there is no such file: {}", Quoted(*path)),
                    PlacesTried(*path, folder));
    }
    return found;
  };
  const auto config_path = file("config");
  const bool own = reader.Has("family");
  const auto family_path = own ? file("family") : std::nullopt;
  constexpr IntegerRange kPositions = {1, model::kMostPositions};
  ConfigParts parts;
  reader.Optional("mtp", parts.further_tokens);
  reader.Section("towers", Need::kOptional, [&](MappingReader& images) {
    parts.patches = images.ReadInteger("patches", Need::kRequired, kPositions);
    images.Optional("image", parts.image, kPositions);
    images.Optional("frozen", parts.frozen);
  });
  reader.Section("encoder", Need::kOptional, [&](MappingReader& encoder) {
    parts.encoder_tokens = encoder.ReadInteger("tokens", Need::kRequired, kPositions);
  });
  reader.Finish();
  if (!config_path || reader.failed()) return std::nullopt;
  const auto text = ReadTextFile(*config_path, diagnostics);
  if (!text) return std::nullopt;
  const auto config = formats::JsonObject::Parse(*text, *config_path);
  if (!config.has_value()) {
    diagnostics.insert(diagnostics.end(), config.error().begin(), config.error().end());
    return std::nullopt;
  }
  Result<Node> family = Node(nullptr, "");
  if (own) {
    std::optional<Node> read = ReadFamily(*family_path, diagnostics);
    if (!read) return std::nullopt;
    family = *std::move(read);
  } else if (family = FamilyOf(*config); !family) {
    reader.Report(
        "config", "model.unknown-type",
        "no shipped family file supports models of this model_type: " + Quoted(*config_path),
        "add the path of a family file: family: PATH");
    return std::nullopt;
  }
  Result<LoadedModel> loaded = LoadDescribed(*config, *family, *config_path, parts);
  if (loaded) return *std::move(loaded);
  diagnostics.insert(diagnostics.end(), loaded.error().begin(), loaded.error().end());
  return std::nullopt;
}

model::NumericalConstants ReadModelConstants(const Node& node) {
  if (NamesFamily(node)) return {};
  Diagnostics diagnostics;
  MappingReader reader(node, diagnostics);
  if (!reader.Has("family") || DescribesBlocks(reader)) return {};
  return ReadConstants(reader, ReadDimensions(reader));
}

Result<model::NumericalConstants> LoadModelConstants(const std::string& path) {
  Diagnostics diagnostics;
  const std::optional<std::string> text = ReadTextFile(path, diagnostics);
  if (!text.has_value()) return tl::make_unexpected(std::move(diagnostics));
  std::optional<Node> node;
  if (!path.ends_with(kJsonEnding)) {
    node = ParseDocument(*text, path, diagnostics);
    if (!node.has_value()) return tl::make_unexpected(std::move(diagnostics));
    if (!IsHuggingFace(*node)) return ReadModelConstants(*node);
  }
  const Result<LoadedModel> loaded = ParseConfig(*text, path);
  if (!loaded.has_value()) return tl::make_unexpected(loaded.error());
  return loaded->constants;
}

}  // namespace stepcast::scenario
