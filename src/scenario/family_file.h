#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/model/family.h"
#include "src/scenario/document.h"

// A family of models as a file (docs/formats/model.md): its module names, the properties of its
// code, and rules that convert its config.json (family_config.h). Shipped families are in
// models/families of the data root, in files named after the families.
namespace stepcast::scenario {

inline constexpr std::string_view kFamilies = "models/families";

// FamilyOfDimensions returns a shipped family whose model files contain dimensions. FamilyOfBlocks
// returns a shipped family whose model files describe blocks. Null if there is no such family, or
// if the family's file has mistakes. The functions append mistakes to `diagnostics`.
std::shared_ptr<const model::Family> FamilyOfDimensions(const std::string& name,
                                                        Diagnostics& diagnostics);
std::shared_ptr<const model::Family> FamilyOfBlocks(const std::string& name,
                                                    Diagnostics& diagnostics);
// Returns the module names from the file of a family that describes models by blocks.
std::shared_ptr<const model::Family> FamilyOfBlocks(const Node& family, Diagnostics& diagnostics);
// Returns the general module names, for blocks that belong to no family.
std::shared_ptr<const model::Family> GeneralFamily(Diagnostics& diagnostics);

// FamiliesOfDimensions returns the names of shipped families whose model files contain dimensions.
// FamiliesOfBlocks returns the names of shipped families whose model files describe blocks.
std::vector<std::string> FamiliesOfDimensions();
std::vector<std::string> FamiliesOfBlocks();

// Returns why a known family has no file, such as "opt differs from gpt2 by feed-forward layers of
// ReLU, which are not modelled". `name` is the name of a family, a model or a file, and starts with
// the family's name. Empty if the family is unknown.
std::string UnmodelledFamily(std::string_view name);

std::string FamilyPath(const std::string& name);
std::string NameOfFamily(const Node& family);
// Returns whether blocks, not dimensions, describe the models of a family.
bool HasBlocks(const YamlNode& family);

// Returns the file of a family, with all sections of the families that this family extends. If
// there are mistakes, appends them and returns no value.
std::optional<Node> ReadFamily(const std::string& path, Diagnostics& diagnostics);

}  // namespace stepcast::scenario
