"""The one store, over two small drivers. SQL stands in .sql files beside this one."""
