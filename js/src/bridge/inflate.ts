/** Base64 of gzipped JSON to data, with what browsers have built in. */

export async function inflate(base64: string): Promise<unknown> {
  const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  const packed = new Response(bytes).body;
  if (!packed) throw new Error("This browser cannot read the embedded data.");
  const unpacked = packed.pipeThrough(
    new DecompressionStream("gzip") as ReadableWritablePair<Uint8Array, Uint8Array>,
  );
  return JSON.parse(await new Response(unpacked).text()) as unknown;
}
