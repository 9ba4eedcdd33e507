#pragma once

#include <functional>
#include <string_view>
#include <utility>

#include "src/model/architecture.h"
#include "src/model/family.h"
#include "src/model/layer_operators.h"

namespace stepcast::model {

// The base of classes that add the kernels of one part of a block, such as an indexer.
class BlockOperators {
 public:
  // Finds the positions of a module's parameters. Frozen parameters have no positions.
  using Find = std::function<ModulePositions(std::string_view module)>;
  // All arguments must outlive the tape's Finish, because the object keeps references to them.
  BlockOperators(LayerOperators& operators, const Architecture& architecture,
                 const ModuleNames& names, Find find)
      : operators_(operators),
        tape_(*operators.tape_),
        a_(architecture),
        names_(names),
        find_(std::move(find)) {}

 protected:
  using Value = LayerTape::Value;

  LayerOperators& operators_;
  LayerTape& tape_;
  const Architecture& a_;
  const ModuleNames& names_;
  const Find find_;
};

}  // namespace stepcast::model
