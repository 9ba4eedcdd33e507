#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/model/family.h"

// Families and models that are shipped with stepcast, for tests. An unknown name ends the test.
namespace stepcast::model {

std::shared_ptr<const Family> FamilyCalled(const std::string& name);
// Returns the family for models that a file describes block by block.
std::shared_ptr<const Family> GeneralFamily();

inline Architecture TypicalOf(const std::string& family) { return TypicalOf(FamilyCalled(family)); }

// Returns the architecture of a model file, such as "llama3.1-8b", without numbers of positions
// that do not limit the sequence length.
Architecture Shipped(const std::string& model);

// Returns a decoder with these dimensions and the family's typical properties.
inline Architecture OfFamily(const std::string& family, std::int64_t layers, std::int64_t hidden,
                             std::int64_t heads, std::int64_t kv_heads, std::int64_t head_size,
                             std::int64_t feed_forward, std::int64_t vocabulary) {
  Architecture a = TypicalOf(family);
  a.layers = layers;
  a.hidden = hidden;
  a.heads = heads;
  a.kv_heads = kv_heads;
  a.head_size = head_size;
  a.feed_forward = feed_forward;
  a.vocabulary = vocabulary;
  return a;
}

}  // namespace stepcast::model
