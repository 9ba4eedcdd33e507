#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/model/model.h"
#include "src/model/numerical_constants.h"
#include "src/plan/request.h"
#include "src/scenario/document.h"
#include "src/scenario/scenario.h"

namespace stepcast::scenario {

// What a pipeline's stages share out of the model.
plan::ModelBlocks BlocksOf(const model::Model& model);

// The constants of the scenario's model, from the description that it was loaded from; `source` is
// the scenario's file. Errors: those of a file that has changed since.
Result<model::NumericalConstants> ModelConstantsOf(const Scenario& scenario,
                                                   const std::string& source);

// Model files (docs/formats.md): `kind: transformer`, a model by its dimensions, `kind: layers`, a
// model by its layers' times, and a Hugging Face config.json, unchanged.
//
// Besides what documents report in general: model.impossible (dimensions that do not fit together),
// model.parameter-count (the dimensions give another count than the file states), model.too-large
// (a layer list beyond what is simulated), model.no-parameters, and for a config.json what
// formats/huggingface.h reports.

// A layer list has at most this many layers and tensors, repeats counted, and takes at most so long
// and keeps at most so much per micro-batch: no sum over a step then leaves 64 bits.
inline constexpr std::int64_t kMostListedLayers = 100'000;
inline constexpr std::int64_t kMostListedTensors = 1'000'000;
inline constexpr std::int64_t kMostListedParameters = 1'000'000'000'000'000;
inline constexpr Time kMostListedTime = Seconds(15 * 60);
inline constexpr Bytes kMostListedActivation = GiB(std::int64_t{1} << 20);  // 1 PiB

// A model as YAML, in a file of its own or inside a scenario. One without a name is called after
// its file, without the ending, or after its place in the scenario.
std::optional<model::Model> ReadModel(const Node& node, Diagnostics& diagnostics);

struct LoadedModel {
  model::Model model;
  // What the model leaves out of its description; sentences for the forecast's warnings. A YAML
  // file has none: what it states is followed, or a mistake.
  std::vector<std::string> warnings{};
};

// `path` names a YAML file or a config.json: what ends in .json, or has a model_type and no kind,
// is the latter.
Result<LoadedModel> LoadModel(const std::string& path);

// A config.json with more about how to read it, a mapping that has the key `config`: `{config:
// PATH, family: PATH, mtp: true, towers: {patches: 1024, image: 256}}`. Paths are relative to
// `folder`.
bool NamesFamily(const Node& node);
std::optional<LoadedModel> ReadConfigOfFamily(const Node& node, std::string_view folder,
                                              Diagnostics& diagnostics);

// The constants of the same descriptions, which no forecast needs. Layer lists have none that mean
// anything. Only for descriptions that were read without mistakes.
model::NumericalConstants ReadModelConstants(const Node& node);
Result<model::NumericalConstants> LoadModelConstants(const std::string& path);

}  // namespace stepcast::scenario
