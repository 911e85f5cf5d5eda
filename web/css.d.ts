/** Styles are bundled, not read. */
declare module "*.css";
