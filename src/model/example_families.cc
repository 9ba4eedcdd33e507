#include "src/model/example_families.h"

#include <map>

#include "src/base/check.h"
#include "src/scenario/family_file.h"

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

}  // namespace stepcast::model
