#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/formats/json_tree.h"
#include "src/model/family.h"
#include "src/model/numerical_constants.h"
#include "src/scenario/document.h"

// Reads a config.json with the file of its family. The family's file contains its model_types, the
// keys of the config.json with their defaults, and a template of the resulting model file. Errors:
// model.family (an expression that cannot be evaluated), model.unknown-type, input.missing-key (a
// required key of the config.json is missing), model.not-modelled (an unsupported value).
namespace stepcast::scenario {

// Returns the file of the shipped family for the model, with the inherited sections of the families
// that this family extends. The family is determined by the model_type of the config.json
// ("qwen3_next") or of its `text_config`, if any.
Result<Node> FamilyOf(const formats::JsonObject& config);

// Optional parts of a config.json's model, in addition to its main layers.
struct ConfigParts {
  bool further_tokens = false;  // the multi-token-prediction module
  // `patches`: number of image patches per sequence that the tower encodes. `image`: number of
  // patches per image. Not set: the model has no tower.
  std::optional<std::int64_t> patches{}, image{};
  bool frozen = false;                           // the tower is not trained
  std::optional<std::int64_t> encoder_tokens{};  // tokens per sequence of an encoder before the
                                                 // decoder
};

struct FamilyModel {
  Node description;                             // a model file
  std::shared_ptr<const model::Family> family;  // null: `description` has the key `family`
  std::string name;                             // value of "_name_or_path", or empty
  std::vector<std::string> warnings{};
  // Set only for a model that is described by its dimensions.
  model::NumericalConstants constants{};
};

// A function that reads the architecture of a model that is described by its dimensions.
using ArchitectureReader = std::function<model::Architecture(const Node& description)>;

// Returns the model file that the family's file defines for a config.json. Appends mistakes; if
// there are any, returns no value.
std::optional<FamilyModel> DescribeConfig(const formats::JsonObject& config, const Node& family,
                                          const ConfigParts& parts,
                                          const ArchitectureReader& architecture_of,
                                          Diagnostics& diagnostics);

}  // namespace stepcast::scenario
