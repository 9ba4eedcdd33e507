#pragma once

#include <memory>

#include "src/model/architecture.h"
#include "src/model/module_names.h"
#include "src/scenario/document.h"

// A transformer whose blocks are described one kind after the other: `mixers`, `feed_forwards`,
// `blocks` that take one of each or one of the two, and a `pattern` that says which layer is which
// block (docs/formats/model.md).
namespace stepcast::scenario {

// The file describes blocks so.
bool DescribesBlocks(const MappingReader& reader);

// All that such a file says, but for its name, its source and its number of parameters. `family`:
// what it calls its modules; null: general names. Mistakes go to the reader's diagnostics.
model::Architecture ReadBlocks(MappingReader& reader,
                               std::shared_ptr<const model::DescribedFamily> family);

}  // namespace stepcast::scenario
