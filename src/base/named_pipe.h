#pragma once

#include <string>

// Opening a named pipe waits for who opens its other end. Where that takes more than a moment,
// stderr says what is waited for: a command that stands still without a word looks broken.
namespace stepcast {

// The descriptor, from which reading waits as usual; -1, with errno, where it cannot be opened. The
// first bytes are there when it returns, or the writer has closed the pipe again.
int OpenPipeToRead(const std::string& path);

// The descriptor; -1, with errno. Something reads the pipe when it returns. Symbolic links are not
// followed.
int OpenPipeToWrite(const std::string& path);

}  // namespace stepcast
