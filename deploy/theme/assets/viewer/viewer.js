// Shows the OpenAPI document of this gateway, in the page's colours. Nothing is asked of anybody else.
const dark = () => {
  const scheme = document.body.getAttribute("data-md-color-scheme");
  document.documentElement.classList.toggle("dark-mode", scheme === "slate");
};
new MutationObserver(dark).observe(document.body, { attributes: true, attributeFilter: ["data-md-color-scheme"] });
dark();

SwaggerUIBundle({
  url: "/pepper/openapi.json",
  dom_id: "#viewer",
  deepLinking: true,
  defaultModelRendering: "example",
  defaultModelsExpandDepth: 0,
  docExpansion: "list",
  validatorUrl: null,
});
