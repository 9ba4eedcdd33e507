#pragma once

#include <memory>
#include <string>

// Scenarios that stand in no file: a program that uses stepcast as a library hands over text, and
// everything that takes the path of a scenario takes the name of such a text.
namespace stepcast::scenario {

// A text that Load() finds by `name()` for the life of this object. Names are made up, so that
// several threads may have theirs at once; in positions the text is called `title`. Paths in it are
// relative to the working directory.
class MemoryDocument {
 public:
  MemoryDocument(std::string title, std::string text);
  ~MemoryDocument();
  MemoryDocument(const MemoryDocument&) = delete;
  MemoryDocument& operator=(const MemoryDocument&) = delete;

  const std::string& name() const { return name_; }

  struct Content {
    std::string title, text;
  };
  // Null when there is no such document.
  static std::shared_ptr<const Content> Find(const std::string& name);

 private:
  std::string name_;
};

}  // namespace stepcast::scenario
