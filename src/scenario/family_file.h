#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/formats/json_tree.h"
#include "src/model/module_names.h"
#include "src/model/numerical_constants.h"
#include "src/scenario/document.h"

// A family of models as a file (docs/formats/model.md): the model_type that it reads, the keys of
// such a config.json with their defaults, and the resulting model file. Shipped families are in the
// data root's models/families, each named after its family.
//
// Codes: model.family (an expression that cannot be evaluated), input.missing-key (a required key
// of the config.json), model.not-modelled (an unsupported value).
namespace stepcast::scenario {

inline constexpr std::string_view kFamilies = "models/families";

// The module names of a shipped family whose models are described by their blocks. Null if there
// is none of this name, or its file has mistakes.
std::shared_ptr<const model::DescribedFamily> NamesOfFamily(const std::string& name,
                                                            Diagnostics& diagnostics);
// The module names of a family whose file has been read.
std::shared_ptr<const model::DescribedFamily> NamesOfFamily(const Node& family,
                                                            Diagnostics& diagnostics);

// The shipped families whose models are described by their blocks.
std::vector<std::string> FamiliesOfBlocks();

// The type of a config.json: its `model_type`, or in the diffusers library its `_class_name`
// ("FluxTransformer2DModel"). Null: it states none.
const formats::JsonValue* TypeOf(const formats::JsonObject& config);

// The shipped family that reads the model, as a document with all sections of the families that it
// extends: by the config.json's type ("qwen3_next"), or by the type of the text model in its
// `text_config`.
Result<Node> FamilyOf(const formats::JsonObject& config);
// A family file of the user's own, likewise.
std::optional<Node> ReadFamily(const std::string& path, Diagnostics& diagnostics);

// Optional parts of a config.json's model besides its main layers.
struct ConfigParts {
  bool further_tokens = false;  // the multi-token-prediction module
  // The tower, and its numbers of patches: of all images of a sequence, and of one.
  std::optional<std::int64_t> patches{}, image{};
  bool frozen = false;                           // the tower is not trained
  std::optional<std::int64_t> encoder_tokens{};  // of a sequence of an encoder before the decoder
};

struct FamilyModel {
  Node description;  // a model file
  std::shared_ptr<const model::DescribedFamily> family;
  std::string name;  // "_name_or_path", or empty
  std::vector<std::string> warnings{};
  // Of a model file by its dimensions; the constants of other models are not read.
  model::NumericalConstants constants{};
};

// The architecture that a model file by its dimensions describes.
using ArchitectureReader = std::function<model::Architecture(const Node& description)>;

// The model file that the family makes from a config.json. Nothing after appending mistakes.
std::optional<FamilyModel> DescribeConfig(const formats::JsonObject& config, const Node& family,
                                          const ConfigParts& parts,
                                          const ArchitectureReader& architecture_of,
                                          Diagnostics& diagnostics);

}  // namespace stepcast::scenario
