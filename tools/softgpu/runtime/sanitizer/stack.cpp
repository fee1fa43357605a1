#include "sanitizer/stack.h"

#include <dlfcn.h>

#include "base.h"

namespace softgpu {
namespace {

constexpr int kMostFrames = 12;

// Python's public API, found in the program if it is one.
struct Python {
  template <typename Function>
  static Function find(const char* name) {
    return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  }
  void* (*this_thread)() = find<void* (*)()>("PyGILState_GetThisThreadState");
  int (*ensure)() = find<int (*)()>("PyGILState_Ensure");
  void (*release)(int) = find<void (*)(int)>("PyGILState_Release");
  void* (*frame)(void*) = find<void* (*)(void*)>("PyThreadState_GetFrame");
  void* (*back)(void*) = find<void* (*)(void*)>("PyFrame_GetBack");
  void* (*code)(void*) = find<void* (*)(void*)>("PyFrame_GetCode");
  int (*line)(void*) = find<int (*)(void*)>("PyFrame_GetLineNumber");
  void* (*attribute)(void*, const char*) =
      find<void* (*)(void*, const char*)>("PyObject_GetAttrString");
  const char* (*text)(void*) = find<const char* (*)(void*)>("PyUnicode_AsUTF8");
  void (*drop)(void*) = find<void (*)(void*)>("Py_DecRef");
};

std::string described(const Python& python, void* frame) {
  void* const code = python.code(frame);
  void* const file = python.attribute(code, "co_filename");
  void* const name = python.attribute(code, "co_name");
  std::string line = std::string("\n      ") + python.text(file) + ":" +
                     std::to_string(python.line(frame)) + " " + python.text(name);
  python.drop(name);
  python.drop(file);
  python.drop(code);
  return line;
}

}  // namespace

std::string caller_stack() {
  static const bool wanted = setting("STACKS", 0) != 0;
  static const Python& python = *new Python;
  if (!wanted || !python.this_thread || !python.this_thread()) return "";
  const int state = python.ensure();
  std::string stack;
  void* frame = python.frame(python.this_thread());
  for (int depth = 0; frame && depth < kMostFrames; ++depth) {
    stack += described(python, frame);
    void* const caller = python.back(frame);
    python.drop(frame);
    frame = caller;
  }
  if (frame) python.drop(frame);
  python.release(state);
  return stack;
}

}  // namespace softgpu
