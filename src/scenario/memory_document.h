#pragma once

#include <memory>
#include <string>

// Scenarios without a file. Programs that use stepcast as a library pass text. Every function with
// the path of a scenario as its argument also accepts the name of a MemoryDocument.
namespace stepcast::scenario {

// A text that Load() finds by name() during the life of this object. Names are unique, so several
// threads may have separate documents. Positions show the text as `title`. Relative paths in the
// text start from the working directory.
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
  // Returns the document with this name, or null if no document has it.
  static std::shared_ptr<const Content> Find(const std::string& name);

 private:
  std::string name_;
};

}  // namespace stepcast::scenario
