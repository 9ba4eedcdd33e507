#include "src/model/example_families.h"

#include <map>
#include <variant>

#include "src/base/check.h"
#include "src/scenario/family_file.h"
#include "src/scenario/model_file.h"

namespace stepcast::model {

std::shared_ptr<const Family> FamilyCalled(const std::string& name) {
  static std::map<std::string, std::shared_ptr<const Family>> known;
  std::shared_ptr<const Family>& family = known[name];
  Diagnostics diagnostics;
  if (family == nullptr) family = scenario::FamilyOfDimensions(name, diagnostics);
  STEPCAST_CHECK(family != nullptr, "stepcast must ship the family that a test uses");
  return family;
}

std::shared_ptr<const Family> GeneralFamily() {
  Diagnostics diagnostics;
  static const std::shared_ptr<const Family> family = scenario::GeneralFamily(diagnostics);
  STEPCAST_CHECK(family != nullptr, "stepcast must ship the general family");
  return family;
}

Architecture Shipped(const std::string& model) {
  static std::map<std::string, Architecture> known;
  const auto [at, is_new] = known.try_emplace(model);
  if (!is_new) return at->second;
  const auto loaded = scenario::LoadModel("models/" + model + ".yaml");
  STEPCAST_CHECK(loaded.has_value(), "a model in a test must be shipped");
  at->second = std::get<Architecture>(loaded->model.source);
  if (at->second.position != Position::kLearned) at->second.max_positions = 0;
  return at->second;
}

}  // namespace stepcast::model
