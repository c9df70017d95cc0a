// Run ONNX models in ONNX Runtime for node.js or for the web; as runtime_worker.py.
//
//     node tools/runtime_worker.mjs onnxruntime-node FOLDER MODULES
//
// MODULES is the directory of node_modules where the package is installed.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const [runtime, folder, modules] = process.argv.slice(2);
const ort = createRequire(join(resolve(modules), "here.js"))(runtime);
const ARRAYS = { float32: Float32Array, float64: Float64Array };

for (const { name, dtype, shape } of JSON.parse(readFileSync(join(folder, "models.json")))) {
  const path = (end) => join(folder, `${name}.${end}`);
  if (existsSync(path("found")) || existsSync(path("error"))) continue;
  const bytes = readFileSync(path("rows"));
  const rows = new ARRAYS[dtype](bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  try {
    const session = await ort.InferenceSession.create(new Uint8Array(readFileSync(path("onnx"))));
    const given = { [session.inputNames[0]]: new ort.Tensor(dtype, rows, shape) };
    const found = (await session.run(given))[session.outputNames[0]].data;
    writeFileSync(path("found"), new Uint8Array(found.buffer, found.byteOffset, found.byteLength));
  } catch (error) {
    writeFileSync(path("error"), String(error));
  }
}
