module.exports = require("../../vite.config.cjs");
