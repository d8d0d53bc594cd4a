// What the sample uses of Node.js, whose types are a package of their own.
declare const process: { readonly argv: readonly string[] };
