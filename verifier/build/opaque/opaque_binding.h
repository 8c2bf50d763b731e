// What most extensions use of pybind11: PYBIND11_MODULE with functions by their addresses.
#pragma once

#include <Python.h>

extern "C" {
bool hone_tensor_load(PyObject* object, void* result);  // false: no tensor
PyObject* hone_tensor_wrap(const void* tensor);
void hone_raise();  // the exception that is being handled, as a Python error
}

namespace hone_opaque {

template <class T>
struct Cast;

template <>
struct Cast<at::Tensor> {
  static bool From(PyObject* object, at::Tensor& value) { return hone_tensor_load(object, &value); }
  static PyObject* To(const at::Tensor& value) { return hone_tensor_wrap(&value); }
};
/// As pybind11 takes them: what is true or false is a truth value, what has a whole number in it an integer, and no float.
template <>
struct Cast<bool> {
  static bool From(PyObject* object, bool& value) {
    const PyNumberMethods* number = Py_TYPE(object)->tp_as_number;
    if (object != Py_None && (number == nullptr || number->nb_bool == nullptr)) return false;
    const int truth = PyObject_IsTrue(object);
    PyErr_Clear();
    value = truth == 1;
    return truth >= 0;
  }
  static PyObject* To(bool value) { return PyBool_FromLong(value); }
};
template <class T>
struct CastInteger {
  static bool From(PyObject* object, T& value) {
    if (PyFloat_Check(object)) return false;
    PyObject* whole = PyNumber_Index(object);
    if (whole == nullptr && PyNumber_Check(object)) {
      PyErr_Clear();
      whole = PyNumber_Long(object);
    }
    const long long wide = whole != nullptr ? PyLong_AsLongLong(whole) : 0;
    Py_XDECREF(whole);
    value = static_cast<T>(wide);
    const bool right = PyErr_Occurred() == nullptr && static_cast<long long>(value) == wide;
    PyErr_Clear();
    return right;
  }
  static PyObject* To(T value) { return PyLong_FromLongLong(static_cast<long long>(value)); }
};
template <>
struct Cast<int> : CastInteger<int> {};
template <>
struct Cast<long> : CastInteger<long> {};
template <>
struct Cast<long long> : CastInteger<long long> {};
template <class T>
struct CastFloat {
  static bool From(PyObject* object, T& value) {
    value = static_cast<T>(PyFloat_AsDouble(object));
    const bool right = PyErr_Occurred() == nullptr;
    PyErr_Clear();
    return right;
  }
  static PyObject* To(T value) { return PyFloat_FromDouble(static_cast<double>(value)); }
};
template <>
struct Cast<float> : CastFloat<float> {};
template <>
struct Cast<double> : CastFloat<double> {};

template <class T>
struct Cast<std::optional<T>> {
  static bool From(PyObject* object, std::optional<T>& value) {
    if (object == Py_None) return true;
    return Cast<T>::From(object, value.emplace());
  }
  static PyObject* To(const std::optional<T>& value) { return value ? Cast<T>::To(*value) : Py_NewRef(Py_None); }
};
template <class T>
struct Cast<std::vector<T>> {
  static bool From(PyObject* object, std::vector<T>& values) {
    if (!PyList_Check(object) && !PyTuple_Check(object)) return false;
    const Py_ssize_t count = PySequence_Size(object);
    for (Py_ssize_t i = 0; i < count; ++i) {
      PyObject* item = PySequence_GetItem(object, i);
      T value{};
      const bool right = item != nullptr && Cast<T>::From(item, value);
      Py_XDECREF(item);
      if (!right) return false;
      values.push_back(std::move(value));
    }
    return true;
  }
  static PyObject* To(const std::vector<T>& values) {
    PyObject* list = PyList_New(static_cast<Py_ssize_t>(values.size()));
    for (size_t i = 0; list != nullptr && i < values.size(); ++i) {
      PyObject* item = Cast<T>::To(values[i]);
      if (item == nullptr) {
        Py_DECREF(list);
        return nullptr;
      }
      PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), item);
    }
    return list;
  }
};
template <class... T>
struct Cast<std::tuple<T...>> {
  static PyObject* To(const std::tuple<T...>& values) {
    return std::apply([](const T&... each) { return Pack({Cast<T>::To(each)...}); }, values);
  }
  static PyObject* Pack(std::initializer_list<PyObject*> items) {
    PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(items.size()));
    Py_ssize_t at = 0;
    for (PyObject* item : items) {
      if (item == nullptr || tuple == nullptr) return nullptr;
      PyTuple_SET_ITEM(tuple, at++, item);
    }
    return tuple;
  }
};

template <class F>
struct Function;

template <class R, class... A>
struct Function<R (*)(A...)> {
  using Pointer = R (*)(A...);
  PyMethodDef method;  // outlives the Python object, as long as the process
  Pointer pointer;

  static PyObject* Call(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
    const auto* function = static_cast<const Function*>(PyCapsule_GetPointer(self, nullptr));
    return function->Invoke(arguments, count, std::index_sequence_for<A...>());
  }

  template <size_t... I>
  PyObject* Invoke(PyObject* const* arguments, Py_ssize_t count, std::index_sequence<I...>) const {
    try {
      std::tuple<std::decay_t<A>...> values;
      if (count != static_cast<Py_ssize_t>(sizeof...(A)) || !(true && ... && Cast<std::decay_t<A>>::From(arguments[I], std::get<I>(values)))) {
        return PyErr_Format(PyExc_TypeError, "%s(): incompatible function arguments", method.ml_name);
      }
      if constexpr (std::is_void_v<R>) {
        pointer(static_cast<A>(std::get<I>(values))...);
        return Py_NewRef(Py_None);
      } else {
        return Cast<std::decay_t<R>>::To(pointer(static_cast<A>(std::get<I>(values))...));
      }
    } catch (...) {
      hone_raise();
      return nullptr;
    }
  }
};

class Module {
 public:
  explicit Module(PyObject* module) : module_(module) {}

  template <class R, class... A>
  Module& def(const char* name, R (*pointer)(A...), const char* text = "") {
    using Entry = Function<R (*)(A...)>;
    auto* entry = new Entry{{name, nullptr, METH_FASTCALL, text}, pointer};
    entry->method.ml_meth = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&Entry::Call));
    PyObject* self = PyCapsule_New(entry, nullptr, nullptr);
    PyObject* owner = PyModule_GetNameObject(module_);
    PyObject* function = PyCFunction_NewEx(&entry->method, self, owner);
    if (function != nullptr) PyModule_AddObjectRef(module_, name, function);
    Py_XDECREF(function);
    Py_XDECREF(owner);
    Py_XDECREF(self);
    return *this;
  }

 private:
  PyObject* module_;
};

inline PyObject* MakeModule(const char* name, void (*fill)(Module&)) {
  auto* definition = new PyModuleDef{PyModuleDef_HEAD_INIT, name, nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};
  PyObject* object = PyModule_Create(definition);
  if (object == nullptr) return nullptr;
  Module module(object);
  fill(module);
  if (PyErr_Occurred() == nullptr) return object;
  Py_DECREF(object);
  return nullptr;
}

}  // namespace hone_opaque

namespace torch {
template <class R, class... A>
auto wrap_pybind_function(R (*pointer)(A...)) {
  return pointer;
}
}  // namespace torch

#define HONE_MODULE(name, text, variable)                                                              \
  static void hone_fill_module(::hone_opaque::Module& variable);                                       \
  extern "C" __attribute__((visibility("default"))) PyObject* PyInit_##name() {                        \
    return ::hone_opaque::MakeModule(text, hone_fill_module);                                          \
  }                                                                                                    \
  static void hone_fill_module([[maybe_unused]] ::hone_opaque::Module& variable)
#define HONE_NAMED_MODULE(name, variable) HONE_MODULE(name, #name, variable)
#define PYBIND11_MODULE(name, variable) HONE_NAMED_MODULE(name, variable)
