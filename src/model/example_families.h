#pragma once

#include <memory>
#include <string>

#include "src/model/family.h"

// Families that are shipped with stepcast, for tests. An unknown name ends the test.
namespace stepcast::model {

std::shared_ptr<const Family> FamilyCalled(const std::string& name);
// Returns the family for models that a file describes block by block.
std::shared_ptr<const Family> GeneralFamily();

inline Architecture TypicalOf(const std::string& family) { return TypicalOf(FamilyCalled(family)); }

}  // namespace stepcast::model
