#pragma once

#include <memory>
#include <string>

#include "src/model/family.h"

// The shipped families, for tests. An unknown name ends the test.
namespace stepcast::model {

std::shared_ptr<const Family> FamilyCalled(const std::string& name);
// For models described by their blocks.
std::shared_ptr<const Family> GeneralFamily();

inline Architecture TypicalOf(const std::string& family) { return TypicalOf(FamilyCalled(family)); }

}  // namespace stepcast::model
