#pragma once

#include <memory>

#include "src/model/architecture.h"
#include "src/model/family.h"
#include "src/scenario/document.h"

// Reads a transformer with several kinds of blocks. The file defines `mixers`, `feed_forwards` and
// `blocks`. Each block has a mixer, a feed-forward part or both. `pattern` lists the block of each
// layer (docs/formats/model.md).
namespace stepcast::scenario {

// Returns whether the file describes blocks in this format.
bool DescribesBlocks(const MappingReader& reader);

// Reads the architecture: all keys except name, source and number of parameters. `family` has the
// family's module names; null: general names. Appends mistakes to the reader's diagnostics.
model::Architecture ReadBlocks(MappingReader& reader, std::shared_ptr<const model::Family> family);

}  // namespace stepcast::scenario
