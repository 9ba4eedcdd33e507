#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/model/model.h"
#include "src/model/numerical_constants.h"
#include "src/plan/request.h"
#include "src/scenario/document.h"
#include "src/scenario/scenario.h"

namespace stepcast::scenario {

// Returns the blocks that a pipeline divides among its stages.
plan::ModelBlocks BlocksOf(const model::Model& model);

// Returns the numerical constants of the scenario's model. `source` is the scenario's file. Fails
// only if a file has changed since the model was loaded.
Result<model::NumericalConstants> ModelConstantsOf(const Scenario& scenario,
                                                   const std::string& source);

// Model files (docs/formats.md). A file with `kind: transformer` contains a model's dimensions or
// blocks. A file with `kind: layers` contains the times of a model's layers. A Hugging Face
// config.json is a model file without changes.
//
// Errors, in addition to the errors of document.h: model.impossible (inconsistent dimensions),
// model.parameter-count (the number of parameters differs from the number in the file),
// model.too-large (a layer list beyond the limits), model.no-parameters, and for a config.json the
// errors of formats/huggingface.h.

// The limits of a layer list: layers and tensors, including repeats, and the time and activations
// of a micro-batch. With these limits, every sum over a step fits in 64 bits.
inline constexpr std::int64_t kMostListedLayers = 100'000;
inline constexpr std::int64_t kMostListedTensors = 1'000'000;
inline constexpr std::int64_t kMostListedParameters = 1'000'000'000'000'000;
inline constexpr Time kMostListedTime = Seconds(15 * 60);
inline constexpr Bytes kMostListedActivation = GiB(std::int64_t{1} << 20);  // 1 PiB

// Reads a model as YAML, in a file or inside a scenario. If the model has no name, the name is the
// file name without extension, or the key in the scenario.
std::optional<model::Model> ReadModel(const Node& node, Diagnostics& diagnostics);

struct LoadedModel {
  model::Model model;
  // Sentences about parts of the description that are not modeled, for the forecast's warnings.
  // Empty for a YAML file, because unsupported keys in YAML are errors.
  std::vector<std::string> warnings{};
  // The constants of a config.json that describes a model by its dimensions. Not set for other
  // files.
  model::NumericalConstants constants{};
};

// Loads a model from a YAML file or a config.json. A file is a config.json if its name ends in
// .json, or if it has a model_type and no kind.
Result<LoadedModel> LoadModel(const std::string& path);
// Parses the text of a config.json. `path` names the text in positions. A model without a name is
// named after `path`.
Result<LoadedModel> ParseConfig(std::string_view text, const std::string& path);

// These functions read a config.json with options: a mapping with the key `config`, such as
// `{config: PATH, family: PATH, mtp: true, towers: {patches: 1024, image: 256}}`. Paths are
// relative to `folder`.
bool NamesFamily(const Node& node);
std::optional<LoadedModel> ReadConfigOfFamily(const Node& node, std::string_view folder,
                                              Diagnostics& diagnostics);

// These functions read the numerical constants of a model description, which forecasts do not use.
// The description must have no mistakes and must not be a layer list.
model::NumericalConstants ReadModelConstants(const Node& node);
Result<model::NumericalConstants> LoadModelConstants(const std::string& path);

}  // namespace stepcast::scenario
