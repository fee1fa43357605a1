#include "base.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <thread>

namespace softgpu {
namespace {

// Never destroyed: threads of streams outlive main.
std::mutex& counter_lock = *new std::mutex;
std::map<std::string, long>& counters = *new std::map<std::string, long>;
std::set<std::string>& known = *new std::set<std::string>;

std::map<std::string, std::string> read_control(const char* path) {
  std::map<std::string, std::string> values;
  FILE* const file = fopen(path, "r");
  if (!file) return values;
  char name[100], value[200];
  while (fscanf(file, "%99s %199s", name, value) == 2) values[name] = value;
  fclose(file);
  return values;
}

// The value in the control file, which is read anew when it changed.
std::string controlled(const std::string& name) {
  static const char* const path = getenv("SOFTGPU_CONTROL");
  if (!path) return "";
  static std::mutex& lock = *new std::mutex;
  static std::map<std::string, std::string>& values = *new std::map<std::string, std::string>;
  static timespec seen = {};
  const std::lock_guard<std::mutex> held(lock);
  struct stat now;
  if (stat(path, &now) == 0 && memcmp(&now.st_mtim, &seen, sizeof seen) != 0) {
    seen = now.st_mtim;
    values = read_control(path);
  }
  const auto value = values.find(name);
  return value == values.end() ? "" : value->second;
}

std::string with_pid(std::string path) {
  const size_t at = path.find("%p");
  return at == std::string::npos ? path : path.replace(at, 2, std::to_string(getpid()));
}

}  // namespace

std::recursive_mutex& big = *new std::recursive_mutex;

std::string text_setting(const char* name, const char* otherwise) {
  const std::string value = controlled(name);
  if (!value.empty()) return value;
  const char* const given = getenv((std::string("SOFTGPU_") + name).c_str());
  return given && *given ? given : otherwise;
}

long setting(const char* name, long otherwise) {
  const std::string value = text_setting(name, "");
  return value.empty() ? otherwise : strtol(value.c_str(), nullptr, 0);
}

int log_descriptor() {
  static const int descriptor = [] {
    const char* const path = getenv("SOFTGPU_LOG");
    const int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    return file < 0 ? 2 : file;
  }();
  return descriptor;
}

void say(const char* kind, const char* format, ...) {
  char text[8192];
  const int begin = snprintf(text, sizeof text, "softgpu[%d] %s: ", getpid(), kind);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + begin, sizeof text - begin - 1, format, arguments);
  va_end(arguments);
  strcat(text, "\n");
  if (write(log_descriptor(), text, strlen(text)) < 0) return;
}

void count(const std::string& name, long by) {
  const std::lock_guard<std::mutex> held(counter_lock);
  counters[name] += by;
}

long counted(const std::string& name) {
  const std::lock_guard<std::mutex> held(counter_lock);
  const auto value = counters.find(name);
  return value == counters.end() ? 0 : value->second;
}

void found(const char* kind, const std::string& key, const std::string& text) {
  {
    const std::lock_guard<std::mutex> held(counter_lock);
    ++counters["errors"];
    ++counters[std::string("error ") + kind];
    if (!known.insert(kind + key).second) return;
  }
  say(kind, "%s", text.c_str());
}

void report() {
  const std::string path = with_pid(text_setting("REPORT", "")), unfinished = path + ".new";
  FILE* const file = path.empty() ? nullptr : fopen(unfinished.c_str(), "w");
  if (!file) return;
  const std::lock_guard<std::mutex> held(counter_lock);
  const char* separator = "{";
  for (const auto& [name, value] : counters) {
    fprintf(file, "%s\"%s\": %ld", separator, name.c_str(), value);
    separator = ",\n ";
  }
  fputs(counters.empty() ? "{}\n" : "}\n", file);
  fclose(file);
  rename(unfinished.c_str(), path.c_str());
}

void keep_reporting() {
  if (text_setting("REPORT", "").empty()) return;
  std::thread([] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    for (;; usleep(100'000)) report();
  }).detach();
}

double now_ms() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

}  // namespace softgpu
